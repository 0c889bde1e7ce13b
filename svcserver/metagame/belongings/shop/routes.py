"""The store's routes. Spec: 1 §4 Store.

A purchase token is sent in the query string, which is never logged.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal, NoReturn

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.refusals import Forbidden, Malformed, Refusal, Unauthenticated
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.belongings.inventory.rules import policy_of
from svcserver.metagame.belongings.shop import rules
from svcserver.metagame.belongings.shop.acts import Entitlements, ShopActs
from svcserver.metagame.belongings.shop.catalogue import load
from svcserver.metagame.belongings.shop.rules import NotYours
from svcserver.metagame.belongings.shop.wire import OfferReply, TokenReply, show_offer
from svcserver.metagame.once import Again
from svcserver.metagame.refusal_wire import CodedRefusal
from svcserver.metagame.replies import coded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.refusals import worded_as
from svcserver.web.routes import NO_CONTENT, Answer, Feature, Needed, NoContent

PRICED = {"currency": Literal["platinum"]}


@worded_as(CodedRefusal, bare_too=(401, 403))
def refuse(status: int, refusal: Refusal) -> Answer:
    """Return a reply with the body ``{code: '<status>', message}``.

    The body is empty if the access control refused the request (401 or 403).
    """
    by_gate = isinstance(refusal, Unauthenticated | Forbidden) and not isinstance(refusal, NotYours)
    return Answer(status) if by_gate else coded(status, refusal)


@frozen
class ClosedShopRoutes:
    """The store's only route if STORE=off, for clients that open the store screen."""

    routes: ClassVar[Routes] = Routes(
        refuse, when=lambda settings: settings.store != "free", body_log=True
    )

    @routes.row("GET", "/product/skus/public", access=Access.TOKEN, reply=NoReturn)
    async def listing(self, call: Call) -> Answer:
        """Refuse to list offers, because the store is closed; the reply is always 400."""
        raise Malformed("the store is closed")


@frozen
class ShopRoutes:
    """The routes for listing offers and for issuing and redeeming purchase tokens."""

    routes: ClassVar[Routes] = Routes(
        refuse, when=lambda settings: settings.store == "free", body_log=True, access=Access.PLAYER
    )
    acts: ShopActs

    @routes.row(
        "GET", "/product/skus/public", reply=list[OfferReply], query={"requiredTags": Needed(str)}
    )
    async def listing(self, call: Call) -> Answer:
        """Return the offers whose first tag is the requested tag."""
        offers = await self.acts.tagged(call.player, call.request.arguments("requiredTags"))
        return Answer(200, [show_offer(*offer) for offer in offers])

    @routes.row("GET", "/product/sku/<sku_id>", reply=OfferReply)
    async def offer(self, call: Call, sku_id: str) -> Answer:
        """Return one offer of the store."""
        return Answer(200, show_offer(*await self.acts.offer(call.player, sku_id)))

    @routes.row("GET", "/token/<currency>/<sku_id>", reply=TokenReply, path_types=PRICED)
    async def token(self, call: Call, currency: str, sku_id: str) -> Answer:
        """Return a token that buys this offer once.

        The reply is 404 if the offer does not exist, and 409 if it is not for sale.
        """
        rules.priced_in(currency)
        return Answer(200, {"purchaseToken": await self.acts.issue(call.player, sku_id)})

    @routes.row(
        "POST",
        "/notification/<currency>",
        reply=NoContent,
        path_types=PRICED,
        query={"token": Needed(str)},
        again=Again.STORED,
    )
    async def redeem(self, call: Call, currency: str) -> Answer:
        """Redeem a purchase token: give the caller the offer's items and entitlements, once.

        A repeated request also gets 204, but gives nothing.
        """
        rules.priced_in(currency)
        sent = call.request.arguments("token")
        token = sent[0] if len(sent) == 1 else None
        await self.acts.redeem(call.player, token, attempt=call.attempt)
        return NO_CONTENT


def shop(parts: Parts, entitlements: Callable[[Connection], Entitlements]) -> Iterator[Feature]:
    """Yield the store's routes; ``entitlements`` stores purchased entitlements. Raises BadData."""
    offers = load(repeatable=parts.settings.store_repeatable_tokens)
    yield ClosedShopRoutes()
    yield ShopRoutes(
        ShopActs(
            offers,
            lambda: policy_of(parts.settings),
            entitlements,
            parts.data,
            parts.wall_clock,
        )
    )
