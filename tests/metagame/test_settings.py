"""Bad settings, and rules between settings. Spec: 1 §5.8, §9."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.settings import BadSetting, load, parse_env_file, with_env_file
from svcserver.metagame.settings import MetagameSettings, check
from tests.support.game import settings, signing_keys
from tests.support.proves import proves


def warnings(**environ: str) -> list[str]:
    private, public = signing_keys()
    base = {
        "PORT": "61000",
        "AUTH_MODE": "APIKEY",
        "AUTH_SIGNING_PRIVKEY_B64": private,
        "AUTH_SIGNING_PUBKEY_B64": public,
    }
    return load(MetagameSettings, base | environ)[1]


class BadValueTests(SynchronousTestCase):
    @proves("settings of the metagame: what a bad value does")
    def test_a_bad_value_warns_by_name_and_the_default_is_used(self) -> None:
        for name, value in (
            ("PROGRESSION_MODE", "of course"),
            ("ESCALATION_MODE", "x"),
            ("SAVE_HISTORY_KEEP", "1"),
            ("CHAT", "yes"),
            ("PROGRESSION_GRANT_CAP", "0"),
            ("GUILD_MAX_MEMBERS", "many"),
            ("GUILD_INVITE_TTL_DAYS", "365.5"),
            ("LOG_LEVEL", "loud"),
            ("CITY_TITLE", "\x07"),
            ("SERVER_NAME", "caf\xe9"),
            ("GIT_COMMIT", "a b"),
            ("CONTENT_PORT", "http"),
            ("MATCHMAKING_DEPLOY_TIMEOUT_MS", "999"),
            ("BODY_LOG_PER_PATH", "-1"),
        ):
            [line] = warnings(**{name: value})
            self.assertTrue(line.startswith(f"{name} must be "), line)
            self.assertTrue(line.endswith("; using the default"), line)
            if len(value) > 3:  # shorter values may occur in the advice
                self.assertNotIn(value, line)
        self.assertEqual(settings(PROGRESSION_MODE="odd").progression_mode, "real")
        self.assertEqual(settings(PROGRESSION_GRANT_CAP="-1").progression_grant_cap, 5000)

    @proves("ESCALATION_MODE")
    def test_modes_are_accepted_in_any_letter_case(self) -> None:
        self.assertEqual(settings(ESCALATION_MODE=" Real ").escalation_mode, "real")
        self.assertEqual(settings(PROGRESSION_MODE="STUB").progression_mode, "stub")
        self.assertEqual(settings(STORE="Free").store, "free")

    @proves("settings of the metagame: what a bad value does")
    def test_a_bad_port_or_host_ends_the_start_and_names_the_setting(self) -> None:
        for name, value in (
            ("PORT", "0"),
            ("PORT", "9" * 30),
            ("BIND_HOST", "x"),
            ("METRICS_PORT", "-1"),
        ):
            with self.assertRaises(BadSetting) as caught:
                warnings(**{name: value})
            self.assertIn(name, str(caught.exception))
            self.assertIn("must be", str(caught.exception))

    def test_an_empty_list_of_default_entitlements_is_none_at_all(self) -> None:
        self.assertEqual(settings(ENTITLEMENTS_DEFAULT="").entitlements_default, ())
        self.assertEqual(len(settings().entitlements_default), 3)

    @proves("values like off, 0 or false mean real")
    def test_stub_mode_spares_the_listed_accounts(self) -> None:
        stub = settings(PROGRESSION_MODE="Stub", PROGRESSION_REAL_ACCOUNTS="UID-a, UID-b")
        self.assertTrue(stub.real_progression("UID-b"))
        self.assertFalse(stub.real_progression("UID-c"))
        for word in ("off", "0", "false", "real"):
            self.assertTrue(settings(PROGRESSION_MODE=word).real_progression("UID-c"))


class PublicModeTests(SynchronousTestCase):
    def test_public_mode_requires_key_login_and_warns_of_weak_settings(self) -> None:
        for mode in ("", "NONE", "apikey"):
            with self.assertRaises(BadSetting):
                check(settings(GATEWAY_SECRET="s" * 32, AUTH_MODE=mode))
        weak = check(settings(GATEWAY_SECRET="short", BIND_HOST="0.0.0.0"))
        for name in ("GATEWAY_SECRET", "BIND_HOST", "NODE_ENV", "QOS_TARGET_URL"):
            self.assertTrue(any(line.startswith(name) for line in weak), name)
        strong = settings(
            GATEWAY_SECRET="s" * 32,
            NODE_ENV="production",
            QOS_TARGET_URL="http://127.0.0.1:61000/QoS",
        )
        self.assertEqual(check(strong), [])
        self.assertNotIn("s" * 32, repr(strong))


class EnvFileTests(SynchronousTestCase):
    @proves("env file: the environment wins")
    def test_an_env_file_is_read_with_comments_quotes_and_blanks(self) -> None:
        text = "# c\n\nA=1\n B = two words \nC='q'\nD=\"x=y\"\nE=\nexport F=6\nnothing\n=x\n"
        result = {"A": "1", "B": "two words", "C": "q", "D": "x=y", "E": "", "F": "6"}
        self.assertEqual(parse_env_file(text), result)

    def test_a_missing_file_is_named(self) -> None:
        with self.assertRaises(BadSetting) as caught:
            with_env_file("/nowhere.env", {})
        self.assertIn("/nowhere.env", str(caught.exception))
