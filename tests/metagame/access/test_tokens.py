"""Token validity: times, the account's epoch and the signing key. Spec: 1 §5."""

import base64
from itertools import count
from math import gcd
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.keys import new_signing_keys
from svcserver.kernel.secrets import Secret
from svcserver.kernel.signals import SessionsEnded
from svcserver.metagame.access.epochs import Epochs
from svcserver.metagame.access.keys import MAX_FURTHER, BadKey, Keys, load_private
from svcserver.metagame.access.tokens import InvalidToken, Tokens
from tests.support.game import START, signing_keys

ANN, BOB = "UID-ann", "UID-bob"


class TokenCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.now = START
        self.tokens = self.made(*signing_keys())

    def made(self, private: str, public: str, *further: str) -> Tokens:
        return Tokens(lambda: self.now, Keys.parse_pem(Secret(private), public, further))

    def refused(self, token: str, tokens: Tokens | None = None) -> None:
        self.assertRaises(InvalidToken, (tokens or self.tokens).verify, token)

    def signed(self, **claims: Any) -> str:
        whole = {
            "userId": ANN,
            "iat": int(START),
            "exp": START + 60,
            "iss": "svc-metagame",
            "aud": "svc-metagame",
        } | claims
        claims_sent = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode(claims_sent, load_private(signing_keys()[0]), algorithm="RS256")


class EpochTests(TokenCase):
    def test_an_earlier_token_is_refused_at_once_even_if_it_is_remembered(self) -> None:
        ann, bob = self.tokens.sign(ANN), self.tokens.sign(BOB)
        self.assertEqual(self.tokens.verify(ann), ANN)
        self.tokens.epochs.learn(ANN, int(START) + 1)
        self.refused(ann)
        self.assertEqual(self.tokens.verify(bob), BOB)

    def test_within_a_second_only_the_token_after_the_epoch_is_valid(self) -> None:
        self.now = START + 0.2
        before = self.tokens.sign(ANN)
        self.tokens.epochs.learn(ANN, int(START) + 1)
        after = self.tokens.sign(ANN)
        self.assertEqual(self.tokens.verify(after), ANN)
        self.refused(before)
        claims = jwt.decode(after, options={"verify_signature": False})
        self.assertEqual((claims["iat"], claims["exp"] - claims["iat"]), (int(START) + 1, 86400))

    def test_a_token_for_a_login_before_the_epoch_is_refused(self) -> None:
        asked_at, self.now = START + 0.9, START + 5
        self.tokens.epochs.learn(ANN, int(START) + 4)
        token = self.tokens.sign(ANN, asked_at)
        # after the epoch is learned, the token is verified again
        self.assertEqual(self.tokens.verify(token), ANN)
        second = self.made(*signing_keys())
        stale = second.sign(ANN, asked_at)
        self.refused(stale)

    def test_an_epoch_of_a_clock_far_ahead_locks_nobody_out(self) -> None:
        before = self.tokens.sign(ANN)
        self.tokens.epochs.learn(ANN, int(START) + 90_000)
        self.refused(before)
        self.assertEqual(self.tokens.verify(self.tokens.sign(ANN)), ANN)

    def test_an_epoch_of_a_clock_far_behind_revokes_local_tokens(self) -> None:
        stolen, bob = self.tokens.sign(ANN), self.tokens.sign(BOB)
        self.tokens.epochs.learn(ANN, int(START) - 5_000)
        self.refused(stolen)
        self.assertEqual(self.tokens.verify(self.tokens.sign(ANN)), ANN)
        self.assertEqual(self.tokens.verify(bob), BOB)

    def test_without_iat_a_token_is_older_than_every_epoch(self) -> None:
        bare = self.signed(iat=None)
        self.assertEqual(self.tokens.verify(bare), ANN)
        self.tokens.epochs.learn(ANN, 1)
        self.refused(bare)

    def test_a_token_with_added_characters_is_refused(self) -> None:
        """Valid tokens are cached, so many long spellings of one token would fill the memory."""
        token = self.signed()
        signature = token.rpartition(".")[2]
        for more in ("~" * 1_000, "!!!!", "AAAA", " ", "\n", "\0", "é", "\U0001f600", ".", "====="):
            self.refused(token + more)
            self.refused(token.removesuffix(signature) + more + signature)
        self.assertEqual(self.tokens.verify(token), ANN)

    def test_a_token_is_refused_before_its_nbf_time(self) -> None:
        early = self.signed(nbf=START + 10)
        self.refused(early)
        self.now = START + 10
        self.assertEqual(self.tokens.verify(early), ANN)

    def test_tokens_with_invalid_times_are_refused(self) -> None:
        for name in ("iat", "nbf", "exp"):
            for value in ("soon", True, [1], {"at": 1}):
                self.refused(self.signed(**{name: value}))
        self.tokens.epochs.learn(ANN, 1)
        for name in ("iat", "nbf", "exp"):
            self.refused(self.signed(**{name: float("nan")}))


class KeepingEpochsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.epochs = Epochs()
        self.news: list[SessionsEnded] = []
        self.epochs.ended.connect(self.news.append)

    def test_each_epoch_of_an_account_is_announced_once(self) -> None:
        self.epochs.learn(ANN, 10)
        self.epochs.learn(ANN, 10)
        self.epochs.load({ANN: 10, BOB: 7}, self.epochs.learned)
        self.epochs.load({ANN: 10, BOB: 7}, self.epochs.learned)
        self.assertEqual(self.news, [SessionsEnded(ANN, 10), SessionsEnded(BOB, 7)])
        self.epochs.learn(ANN, 12)
        self.assertEqual(self.news[2:], [SessionsEnded(ANN, 12)])

    def test_an_epoch_missing_from_the_database_is_forgotten(self) -> None:
        self.epochs.learn(ANN, 10)
        self.epochs.load({BOB: 7}, self.epochs.learned)
        self.assertEqual((self.epochs.not_before(ANN), self.epochs.not_before(BOB)), (0, 7))

    def test_an_older_reading_of_epochs_overwrites_no_newer_epoch(self) -> None:
        began = self.epochs.learned
        self.epochs.learn(ANN, 10)
        self.epochs.load({BOB: 7}, began)
        self.assertEqual((self.epochs.not_before(ANN), self.epochs.not_before(BOB)), (10, 7))

    def test_a_new_epoch_ends_tokens_signed_here_by_a_later_clock(self) -> None:
        self.epochs.signed(ANN, 50)
        self.epochs.learn(ANN, 10)
        self.assertEqual((self.epochs.not_before(ANN), self.epochs.behind()), (51, {ANN: (10, 51)}))
        self.epochs.signed(ANN, 51)
        self.epochs.learn(ANN, 10)
        self.assertEqual(self.epochs.not_before(ANN), 51)
        self.epochs.learn(ANN, 11)  # another change, by the same clock
        self.assertEqual(self.epochs.not_before(ANN), 52)
        self.epochs.correcting(ANN, 52)
        self.epochs.corrected(ANN, 52, stored=True)
        self.assertEqual((self.epochs.not_before(ANN), self.epochs.behind()), (52, {}))
        self.epochs.load({ANN: 52}, self.epochs.learned)
        self.assertEqual(self.epochs.not_before(ANN), 52)

    def test_a_token_signed_while_its_epoch_is_being_stored_stays_valid(self) -> None:
        self.epochs.signed(ANN, 50)
        self.epochs.learn(ANN, 10)
        self.epochs.correcting(ANN, 51)
        self.epochs.signed(ANN, 51)
        # a log-in reads the epoch that was just committed
        self.assertTrue(self.epochs.learn(ANN, 51))
        self.epochs.corrected(ANN, 51, stored=True)
        self.epochs.load({ANN: 51}, self.epochs.learned)
        self.assertEqual((self.epochs.not_before(ANN), self.epochs.behind()), (51, {}))

    def test_an_earlier_epoch_of_another_process_ends_tokens(self) -> None:
        self.epochs.signed(ANN, 50)
        self.epochs.learn(ANN, 10)
        self.epochs.correcting(ANN, 51)
        self.epochs.signed(ANN, 51)
        self.epochs.learn(ANN, 51)
        self.epochs.corrected(ANN, 51, stored=False)
        self.epochs.load({ANN: 51}, self.epochs.learned)
        self.assertEqual(self.epochs.not_before(ANN), 52)

    def test_a_forgotten_signing_counts_as_the_latest_forgotten(self) -> None:
        self.epochs = Epochs(max_signed=2)
        for account_id, at in ((ANN, 50), (BOB, 60), ("UID-carl", 70), ("UID-dan", 55)):
            self.epochs.signed(account_id, at)
        self.epochs.learn(ANN, 10)
        self.epochs.learn("UID-carl", 10)
        epochs = [self.epochs.not_before(account_id) for account_id in (ANN, "UID-carl")]
        self.assertEqual(epochs, [61, 71])


class KeyTests(TokenCase):
    def test_a_token_names_its_key(self) -> None:
        head = jwt.get_unverified_header(self.tokens.sign(ANN))
        [kid] = self.tokens.keys.public
        self.assertEqual(head, {"typ": "JWT", "alg": "RS256", "kid": kid})

    def test_renewed_keys_log_nobody_out_until_the_old_key_is_retired(self) -> None:
        fresh = new_signing_keys()
        old_token = self.tokens.sign(ANN)
        both = self.made(fresh.private, fresh.public, signing_keys()[1])
        new_token = both.sign(ANN)
        self.assertEqual((both.verify(old_token), both.verify(new_token)), (ANN, ANN))
        retired = self.made(fresh.private, fresh.public)
        self.assertEqual(retired.verify(new_token), ANN)
        self.refused(old_token, retired)
        self.refused(new_token)

    def test_a_token_from_before_kid_is_tried_with_every_key(self) -> None:
        fresh = new_signing_keys()
        both = self.made(fresh.private, fresh.public, signing_keys()[1])
        self.assertEqual(both.verify(self.signed()), ANN)

    def test_a_kid_that_is_not_ours_is_refused(self) -> None:
        private = load_private(signing_keys()[0])
        claims = jwt.decode(self.tokens.sign(ANN), options={"verify_signature": False})
        self.refused(jwt.encode(claims, private, algorithm="RS256", headers={"kid": "other"}))

    def test_a_broken_further_key_is_named_and_the_others_count(self) -> None:
        fresh = new_signing_keys()
        with capturedLogs() as events:
            tokens = self.made(fresh.private, fresh.public, "nonsense", signing_keys()[1])
        [event] = events
        self.assertEqual(event["number"], 1)
        self.assertNotIn("nonsense", str(event))
        self.assertEqual(tokens.verify(self.tokens.sign(ANN)), ANN)

    def test_the_further_keys_are_bounded(self) -> None:
        with capturedLogs() as events:
            tokens = self.made(*signing_keys(), *["nonsense"] * MAX_FURTHER, signing_keys()[1])
        self.assertEqual(len(events), MAX_FURTHER + 1)
        self.assertEqual(len(tokens.keys.public), 1)


class UnsoundKeyTests(SynchronousTestCase):
    """A private key is rejected if its numbers are inconsistent."""

    def read(self, numbers: rsa.RSAPrivateNumbers) -> RSAPrivateKey:
        made = numbers.private_key(unsafe_skip_rsa_key_validation=True)
        pem = made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return load_private(base64.b64encode(pem).decode())

    def setUp(self) -> None:
        self.sound = load_private(signing_keys()[0]).private_numbers()

    def numbers(self, **changes: Any) -> rsa.RSAPrivateNumbers:
        names = ("p", "q", "d", "dmp1", "dmq1", "iqmp", "public_numbers")
        return rsa.RSAPrivateNumbers(
            **{name: getattr(self.sound, name) for name in names} | changes
        )

    def test_a_key_with_a_number_of_another_key_is_rejected(self) -> None:
        self.assertEqual(self.read(self.numbers()).private_numbers(), self.sound)
        for name in ("d", "dmp1", "dmq1", "iqmp"):
            with self.subTest(name), self.assertRaises(BadKey):
                self.read(self.numbers(**{name: getattr(self.sound, name) + 2}))
        of_three = rsa.RSAPublicNumbers(3, self.sound.public_numbers.n)
        with self.assertRaises(BadKey):
            self.read(self.numbers(public_numbers=of_three))

    def test_a_key_with_a_factor_that_is_not_prime_is_rejected(self) -> None:
        """All other numbers of the key are consistent."""
        e, q = self.sound.public_numbers.e, self.sound.q
        odd = count(self.sound.p + 2, 2)
        p = next(number for number in odd if number % 3 == 0 and gcd(number - 1, e) == 1)
        d = pow(e, -1, (p - 1) * (q - 1))
        public = rsa.RSAPublicNumbers(e, p * q)
        fits = rsa.RSAPrivateNumbers(
            p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public_numbers=public
        )
        with self.assertRaises(BadKey):
            self.read(fits)
