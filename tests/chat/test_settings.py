"""Each setting with good and bad values."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.settings import ChatSettings, check
from svcserver.kernel.rates import Rate
from svcserver.kernel.settings import BadSetting, load


class SettingsTests(SynchronousTestCase):
    def test_unset_settings_take_their_defaults_without_a_warning(self) -> None:
        settings, warnings = load(ChatSettings, {})
        self.assertEqual(
            (settings.chat, settings.port, settings.host, settings.nick_check, settings.presence),
            (False, 61099, "127.0.0.1", "enforce", False),
        )
        self.assertEqual(
            (settings.message_rate, settings.max_connections, settings.trace, settings.domain),
            (Rate(8, 60), 2048, False, "svc.local"),
        )
        self.assertEqual(warnings, [])

    def test_a_bad_port_or_host_keeps_chat_from_starting(self) -> None:
        for bad in (
            {"CHAT_PORT": "0"},
            {"CHAT_PORT": "x"},
            {"CHAT_BIND_HOST": "0.0.0.0"},
        ):
            self.assertRaises(BadSetting, load, ChatSettings, bad)

    def test_public_mode_binds_only_the_usual_loopback(self) -> None:
        settings, _ = load(ChatSettings, {"CHAT_BIND_HOST": "::1"})
        check(settings)
        settings, _ = load(ChatSettings, {"CHAT_BIND_HOST": "::1", "GATEWAY_SECRET": "s" * 32})
        self.assertRaises(BadSetting, check, settings)

    def test_a_bad_value_warns_and_the_setting_takes_its_default(self) -> None:
        for name, bad in (
            ("CHAT", "yes"),
            ("CHAT_NICK_CHECK", "off"),
            ("CHAT_MESSAGE_RATE", "8"),
            ("CHAT_MESSAGE_RATE", "0,1"),
            ("CHAT_MESSAGE_RATE", "8,nan"),
            ("CHAT_MAX_CONNECTIONS", "0"),
        ):
            settings, warnings = load(ChatSettings, {name: bad})
            self.assertEqual(settings, ChatSettings())
            self.assertEqual([line.split()[0] for line in warnings], [name])

    def test_a_bad_domain_is_warned_of_and_takes_the_default(self) -> None:
        settings, [warning] = load(ChatSettings, {"CHAT_DOMAIN": "a b"})
        self.assertEqual(settings.domain, "svc.local")
        self.assertIn("CHAT_DOMAIN", warning)
        settings, _ = load(ChatSettings, {"CHAT_DOMAIN": "chat.example.org:5"})
        self.assertEqual(settings.domain, "chat.example.org:5")

    def test_a_good_rate_is_per_second(self) -> None:
        settings, _ = load(ChatSettings, {"CHAT_MESSAGE_RATE": "5,2.5"})
        self.assertEqual(settings.message_rate, Rate(5, 150))
