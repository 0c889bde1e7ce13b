"""The routes that show the host's settings, and change some of them at run time."""

from typing import ClassVar

from attrs import frozen

from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.once import Again
from svcserver.metagame.owner.settings import wire
from svcserver.metagame.owner.settings.catalogue import SettingsCatalogue
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@frozen
class SettingsRoutes:
    """The routes of the settings page, for owners only."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, again=Again.NEVER)
    catalogue: SettingsCatalogue

    @routes.row("GET", "/svc/api/DashboardSettings", reply=wire.SettingsReply, quiet=True)
    async def settings(self, call: Call) -> Answer:
        """List every setting with its value, default, meaning and source; secrets have no value."""
        return Answer(200, await wire.read_settings_reply(self.catalogue), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardSetting",
        body=wire.SettingRequest,
        reply=wire.SettingReply,
        bad_json=BAD_JSON,
    )
    async def change(self, call: Call[wire.SettingRequest]) -> Answer:
        """Change a setting at run time; the change survives restarts."""
        sent, live = call.body, self.catalogue.live
        await live.change(staff_of(call).name, sent.name, sent.value, sent.reason)
        reply: wire.SettingReply = {"name": sent.name, "value": live.value(sent.name)}
        return Answer(200, reply, NO_STORE)
