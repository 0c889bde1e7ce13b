"""The table of escalation seasons."""

from __future__ import annotations

import orjson
from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    LargeBinary,
    String,
    Table,
    bindparam,
    select,
)

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.metagame.achievements.escalation.rules import SeasonState

ESCALATION_SEASONS = Table(
    "escalation_seasons",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("season_id", String(64), primary_key=True),
    Column("level", BigInteger, nullable=False),
    Column("xp", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),  # {"talents": [[id, rank]], "rewards": [id]}
)
_S = ESCALATION_SEASONS.c
_FIND = select(ESCALATION_SEASONS).where(
    _S.account_id == bindparam("account"), _S.season_id == bindparam("season")
)
_PUT = Upsert(ESCALATION_SEASONS)


@frozen
class SqlSeasons:
    """The table of escalation seasons, within one transaction."""

    tx: Connection

    def find(self, account_id: AccountId, season_id: str) -> SeasonState | None:
        row = self.tx.execute(_FIND, {"account": account_id, "season": season_id}).first()
        if row is None:
            return None
        data = orjson.loads(row.data)
        talents = tuple((name, rank) for name, rank in data["talents"])
        return SeasonState(row.level, row.xp, talents, tuple(data["rewards"]), row.version)

    def put(self, account_id: AccountId, season_id: str, state: SeasonState) -> None:
        data = {"talents": list(state.talents), "rewards": list(state.rewards)}
        row = {
            "account_id": account_id,
            "season_id": season_id,
            "level": state.level,
            "xp": state.xp,
            "version": state.version,
            "data": orjson.dumps(data),
        }
        _PUT.put(self.tx, [row])
