"""The OpenAPI document describes exactly what the routes declare."""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

from attrs import evolve, has
from openapi_spec_validator import validate
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.datafiles import read_json
from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.refusals import (
    Conflict,
    Forbidden,
    Missing,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from svcserver.metagame.owner.dashboard import document
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE, describe
from svcserver.metagame.owner.dashboard.routes import KINDS
from svcserver.metagame.owner.dashboard.wire import JoinRequest
from svcserver.metagame.owner.wire import SanctionEntry
from svcserver.metagame.refusal_wire import WordedRefusal
from svcserver.metagame.rows import Access
from svcserver.web.openapi import (
    Credentials,
    operation,
    operation_name,
    schema,
    shape_name,
    templates,
)
from svcserver.web.refusals import wording_of
from tests.support.closed import PlainRules
from tests.support.described import rules_of, rules_of_shape
from tests.support.game import Game
from tests.support.proves import proves

STRING = {"type": "string"}
EXAMPLES = read_json(str(document.__package__), document.EXAMPLES)
REFUSALS = (
    (401, Unauthenticated("no key")),
    (401, Unauthenticated("no key", code="key_wanted")),
    (403, Forbidden("not you")),
    (404, Missing("gone", code="not_found")),
    (409, Conflict("taken", code="taken")),
    (429, TooMany("too often")),
    (503, Unavailable("not now")),
    (503, Unavailable("not now", code="disk")),
)
RECORD_AGAIN = "record the examples again: see tests/support/examples.py"


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def references(value: Any) -> set[str]:
    return set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(value)))


def shapes(kind: Any) -> Iterator[Any]:
    """Yield the named shapes in a type, including nested shapes."""
    inner = get_args(kind)[: 1 if get_origin(kind) is Annotated else None]
    if is_typeddict(kind) or (isinstance(kind, type) and has(kind)):
        yield kind
        inner = tuple(get_type_hints(kind).values())
    for option in inner:
        yield from shapes(option)


def parts(responses: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each nested object with its path; the items of a list have the path of the list."""
    if isinstance(responses, list):
        for operation in responses:
            yield from parts(operation, place)
    elif isinstance(responses, dict):
        yield place, responses
        for name, operation in responses.items():
            yield from parts(operation, f"{place}/{name}")


class DocumentTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.rows = Game(self, **EVERY_ROUTE).door.rows
        self.document = describe(self.rows, "1")

    def operations(self) -> Iterator[tuple[str, Any]]:
        for path, entry in self.document["paths"].items():
            yield from ((path, operation) for operation in entry.values())

    @proves("svcctl openapi")
    def test_every_row_appears_once(self) -> None:
        shown = {
            (m.upper(), p) for p, operation in self.document["paths"].items() for m in operation
        }
        path_of = templates(self.rows)
        self.assertEqual(shown, {(row.method, path_of[row.name]) for row in self.rows})
        self.assertEqual(
            sum(len(operation) for operation in self.document["paths"].values()), len(self.rows)
        )

    def test_every_row_has_a_description(self) -> None:
        silent = [row.name for row in self.rows if not (row.handler.__doc__ or "").strip()]
        self.assertEqual(silent, [])

    @proves("svcctl openapi")
    def test_every_shape_that_is_named_is_there(self) -> None:
        self.assertEqual(
            references(self.document) - set(self.document["components"]["schemas"]), set()
        )
        self.assertNotIn({}, self.document["components"]["schemas"].values())

    def test_no_two_shapes_share_a_name(self) -> None:
        kinds: dict[str, Any] = {}
        for row in self.rows:
            for kind in (*shapes(row.reply), *shapes(row.body)):
                self.assertIs(kinds.setdefault(kind.__name__, kind), kind, row.name)
        self.assertIn("GuildMember", kinds)  # this shape occurs only inside another shape

    @proves("svcctl openapi")
    def test_an_operation_states_its_access_and_its_responses(self) -> None:
        health = self.document["paths"]["/svc/api/BackendHealth"]["get"]
        session: dict[str, list[str]] = {"dashboardCookie": [], "dashboardWord": []}
        self.assertEqual(health["security"], [{"accountKey": []}, session])
        answer = health["responses"]["200"]["content"]["application/json"]["schema"]
        self.assertEqual(answer, {"$ref": "#/components/schemas/BackendHealthReply"})
        shape = self.document["components"]["schemas"]["BackendHealthReply"]
        self.assertEqual(shape["properties"]["uptimeSeconds"], {"type": "integer"})
        self.assertIn("bans", shape["required"])

    def test_path_parameters_are_described(self) -> None:
        revoke = self.document["paths"]["/svc/api/InviteCode/{code}"]["delete"]
        self.assertEqual(
            [parameter["name"] for parameter in revoke["parameters"]], ["code", "Reason"]
        )

    def test_an_unknown_type_has_an_empty_schema(self) -> None:
        self.assertEqual(schema(object, {}), {})
        self.assertEqual(schema(str | None, {}), {"anyOf": [{"type": "string"}, {"type": "null"}]})

    def test_a_reply_with_text_in_place_of_a_time_does_not_fit(self) -> None:
        times = {"type": "string", "format": "date-time"}
        shape = self.document["components"]["schemas"]["SanctionEntry"]["properties"]
        self.assertEqual(shape["since"], times)
        self.assertEqual(shape["until"], {"anyOf": [times, {"type": "null"}]})
        sanction = {"by": "Olga", "networks": [], "note": "", "reason": "", "until": None}
        for since, fits in (("2026-09-21T14:13:20.000Z", True), ("", False), ("soon", False)):
            faults = [*rules_of_shape(SanctionEntry).iter_errors({**sanction, "since": since})]
            self.assertEqual(not faults, fits, since)

    def test_an_envelope_shape_is_named_after_its_contents(self) -> None:
        schemas: dict[str, Any] = {}
        result = schema(Envelope[list[Envelope[JoinRequest]]], schemas)
        self.assertEqual(result, reference("JoinRequestEnvelopeListEnvelope"))
        self.assertEqual(
            list(schemas), ["JoinRequest", "JoinRequestEnvelope", "JoinRequestEnvelopeListEnvelope"]
        )
        outer, inner = schemas["JoinRequestEnvelopeListEnvelope"], schemas["JoinRequestEnvelope"]
        self.assertEqual(outer["properties"]["payload"]["items"], reference("JoinRequestEnvelope"))
        self.assertEqual(inner["properties"]["payload"], reference("JoinRequest"))
        self.assertEqual(outer["required"], ["code", "message", "payload"])
        self.assertEqual(inner["required"], outer["required"])

    def test_two_generic_shapes_have_two_names(self) -> None:
        kinds: dict[str, Any] = {}
        for row in self.rows:
            if is_typeddict(get_origin(row.reply)):
                name = shape_name(row.reply)
                self.assertEqual(kinds.setdefault(name, row.reply), row.reply, row.name)
        self.assertIn("TrackRecordListEnvelope", kinds)
        self.assertIn("StrMapEnvelope", kinds)
        self.assertIn("ObjectiveRecordListOrGrantedEnvelope", kinds)

    def test_every_body_that_has_members_is_a_named_shape(self) -> None:
        for path, entry in self.document["paths"].items():
            for method, described in entry.items():
                sides = described.get("requestBody", {}), described["responses"].get("200", {})
                for media in (kind for side in sides for kind in side.get("content", {}).values()):
                    self.assertNotIn("properties", media["schema"], f"{method} {path}")

    def test_the_document_is_valid_openapi(self) -> None:
        validate(json.loads(json.dumps(self.document)))

    def test_no_two_paths_differ_in_the_names_of_parameters_alone(self) -> None:
        paths = self.document["paths"]
        nameless = [re.sub(r"{\w+}", "{}", path) for path in paths]
        self.assertEqual(len(set(nameless)), len(nameless))
        both = paths["/guild/invite/{account_id_or_invite_id}"]
        self.assertEqual(set(both), {"delete", "put"})
        wanted = {"name": "account_id_or_invite_id", "in": "path", "required": True}
        for method, name in (("delete", "invite id"), ("put", "account id")):
            responses = {"schema": STRING, "description": f"Here the {name}."}
            self.assertEqual(both[method]["parameters"], [wanted | responses])

    def test_widespread_generators_can_name_every_type(self) -> None:
        nameless = []
        for place, shape in parts(self.document["components"]["schemas"], "schemas"):
            of_several = place.endswith("anyOf")
            if shape.get("type") == "null" and not of_several:
                nameless.append(f"{place} is null and nothing else")
            if "enum" in shape and "type" not in shape:
                nameless.append(f"{place} has values without a type")
            if of_several and {"type": "null"} in shape.get("additionalProperties", {}).get(
                "anyOf", ()
            ):
                nameless.append(f"{place} may be a map in which some are null")
        self.assertEqual(nameless, [])
        self.assertEqual(schema(None.__class__, {}), {"type": ["string", "null"], "const": None})

    def test_bodies_and_the_querys_arguments_are_described(self) -> None:
        join = self.document["paths"]["/svc/api/DashboardJoin"]["post"]
        shape = join["requestBody"]["content"]["application/json"]["schema"]
        self.assertEqual(shape, {"$ref": "#/components/schemas/JoinRequest"})
        accepted = self.document["components"]["schemas"]["JoinRequest"]
        self.assertEqual(
            (accepted["properties"], accepted["required"]), ({"Code": STRING}, ["Code"])
        )
        accepted = self.document["components"]["schemas"]["InviteRequest"]
        self.assertEqual(
            (accepted["properties"]["uses"], accepted["required"]), ({"type": "integer"}, [])
        )
        accepted = self.document["components"]["schemas"]["RegisterRequest"]
        self.assertEqual(accepted["required"], ["Username"])
        person = self.document["paths"]["/svc/api/DashboardPerson"]["get"]
        wanted = {"name": "Account", "in": "query", "required": True, "schema": STRING}
        self.assertEqual(person["parameters"], [wanted])

    def test_examples_have_the_shapes_of_their_rows(self) -> None:
        for row in self.rows:
            faults = PlainRules.of(row).faults(EXAMPLES.get(row.name, {}))
            self.assertEqual(faults, [], f"{row.name}: {RECORD_AGAIN}")

    def test_every_json_body_has_an_example_and_no_example_is_stale(
        self,
    ) -> None:
        named = {row.name for row in self.rows}
        self.assertEqual(EXAMPLES.keys() - named, set(), RECORD_AGAIN)
        without = {"GET /svc/api/DashboardOpenApi answered"}  # a document like this one
        for row in self.rows:
            rules = rules_of(row)
            for which in ("sent", "answered"):
                kind = row.body if which == "sent" else row.reply
                reported = getattr(rules, which) is not None and kind not in (Empty, list[Empty])
                if reported and which not in EXAMPLES.get(row.name, {}):
                    without.add(f"{row.name} {which}")
        self.assertEqual(without, {"GET /svc/api/DashboardOpenApi answered"}, RECORD_AGAIN)

    def test_requests_about_other_players_are_described(self) -> None:
        social = ("/party", "/guild", "/slayerlink/", "/candidate/", "/heartbeat", "/svc/api/")
        bodies = [row for row in self.rows if row.body is not None and row.path.startswith(social)]
        self.assertGreater(len(bodies), 20)
        vague = [row.name for row in bodies if row.body is object]
        self.assertEqual(vague, [])
        invite = self.document["components"]["schemas"]["SlayerInviteRequest"]
        self.assertEqual(invite["required"], ["account_id", "slot"])
        ends = self.document["paths"]["/slayerlink/links"]["delete"]["parameters"]
        self.assertEqual(
            [parameter["name"] for parameter in ends], ["account_id", "slot", "delete_pair"]
        )

    def test_a_body_is_required_where_the_empty_object_does_not_fit(self) -> None:
        paths = self.document["paths"]
        register = paths["/svc/api/Register"]["post"]["requestBody"]
        self.assertTrue(register["required"])
        self.assertNotIn("required", paths["/slayerlink/links"]["delete"]["requestBody"])
        login = paths["/account/api/oauth/token"]["post"]["requestBody"]
        self.assertNotIn("required", login)
        self.assertIn("application/x-www-form-urlencoded", login["content"])
        self.assertEqual(list(register["content"]), ["application/json"])

    def test_arguments_have_their_types(self) -> None:
        paths = self.document["paths"]
        shown = {
            (path, parameter["name"]): (parameter["schema"], parameter.get("required", False))
            for path in ("/account/api/public/account", "/svc/api/DashboardSaveDiff")
            for parameter in paths[path]["get"]["parameters"]
        }
        whole = {"type": "integer"}
        listed = {"type": "array", "items": STRING}
        self.assertEqual(shown["/account/api/public/account", "accountId"], (listed, False))
        self.assertEqual(shown["/svc/api/DashboardSaveDiff", "From"], (whole, True))
        [_, _, index] = paths["/loadout/{user_id}/{character_id}/{index}"]["post"]["parameters"]
        self.assertEqual(
            index["schema"], {"anyOf": [whole, {"type": "string", "enum": ["persistent"]}]}
        )
        [code] = paths["/svc/api/DashboardOwnKey"]["post"]["parameters"]
        self.assertEqual((code["name"], code["in"]), ("x-svc-second-factor", "header"))

    def test_operations_list_only_documented_statuses(self) -> None:
        usual = {"200", "204", "302", "4XX", "400", "401", "403", "413", "429", "500", "503"}
        own = {
            "/launcher/new-key": "409",
            "/launcher/passport": "409",
            "/accountinfo/public": "404",
        }
        for path, described in self.operations():
            self.assertLessEqual(set(described["responses"]), usual | {own.get(path, "4XX")}, path)
        asking = "/svc/api/Register", "/launcher/name-free", "/launcher/invite"
        for path in asking:  # REGISTRATION_MODE is wrong
            failure = self.document["paths"][path]["post"]["responses"]["500"]
            self.assertEqual(failure, {"$ref": "#/components/responses/BareRefusal"})
        failed = {path for path, described in self.operations() if "500" in described["responses"]}
        self.assertIn("/progression/{user_id}/{progression_id}", failed)


class NameTests(SynchronousTestCase):
    """The function names in a generated client."""

    def test_each_route_has_one_unique_name_under_any_switches(self) -> None:
        off = {"GUILDS": "0", "MISC_ROUTES": "0", "SLAYER_LINKS": "0", "PROGRESSION_CONFIRM": "off"}
        routes: dict[str, str] = {}
        names: dict[str, str] = {}
        for switches in (EVERY_ROUTE, off, EVERY_ROUTE | off, {}):
            for row in Game(self, **switches).door.rows:
                name = operation_name(row)
                self.assertEqual(routes.setdefault(name, row.name), row.name, switches)
                self.assertEqual(names.setdefault(row.name, name), name, switches)
        self.assertEqual(names["DELETE /guild/<guild_id>"], "guilds_disband")
        self.assertEqual(names["POST /svc/api/DisbandGuild"], "guilds_disband_by_name")

    def test_two_rows_of_one_name_are_a_defect(self) -> None:
        row = Game(self).door.rows[0]
        with self.assertRaisesRegex(ValueError, "have the same operation name "):
            describe([row, evolve(row, path="/elsewhere")], "1")


class RefusalTests(SynchronousTestCase):
    """Each route's documented error responses, and responses without a body."""

    def setUp(self) -> None:
        self.rows = Game(self, **EVERY_ROUTE).door.rows
        self.document = describe(self.rows, "1")
        path_of = templates(self.rows)
        self.operations = {
            row.name: self.document["paths"][path_of[row.name]][row.method.lower()]
            for row in self.rows
        }

    @proves("svcctl openapi")
    def test_every_refusal_of_a_row_matches_its_documented_response(self) -> None:
        stored = self.document["components"]["responses"]
        used = set()
        for row in self.rows:
            responses = self.operations[row.name]["responses"]
            name = responses["4XX"]["$ref"].rpartition("/")[2]
            used |= {
                operation["$ref"].rpartition("/")[2]
                for operation in responses.values()
                if "$ref" in operation
            }
            self.assertIn("description", stored[name])
            never = {*row.refusals, *([401] if row.access == Access.NONE else [])}
            worded = [operation for operation in REFUSALS if operation[0] not in never]
            for status, why in worded:
                answer, kinds = row.refuse(status, why), rules_of(row).refused(status)
                faults = ["nothing" if answer.body is None else "a body"]
                if answer.body is None:
                    faults = [] if "" in kinds else faults
                elif "application/json" in kinds:
                    shape = kinds["application/json"]
                    faults = [operation.message for operation in shape.iter_errors(answer.body)]
                self.assertEqual(faults, [], f"{row.name} refuses with {status}")
        self.assertEqual(used, set(stored))
        self.assertEqual(
            {name for name in used if "content" in stored[name]},
            {"CodedRefusal", "EmptyRefusal", "EnvelopedRefusal", "GuildRefusal"}
            | {"CodedRefusalOrPage"}
            | {"EmptyRefusalOrPage", "EnvelopedRefusalOrPage", "GuildRefusalOrPage"}
            | {"TooLarge", "WordedRefusal", "WordedRefusalOrPage"},
        )

    def test_the_reply_to_bad_json_has_the_shape_of_its_row(self) -> None:
        for row in self.rows:
            if row.bad_json is not None:
                self.assertIs(wording_of(row.refuse).shape, WordedRefusal, row.name)
                faults = [*rules_of_shape(WordedRefusal).iter_errors(row.bad_json.body)]
                self.assertEqual(faults, [], row.name)

    def test_204_is_documented_only_for_routes_that_answer_it(self) -> None:
        friends = "/friends/api/public/{0}/<user_id>/<friend_id>"
        block, friend = friends.format("blocklist"), friends.format("friends")
        result = {
            name for name, operation in self.operations.items() if "204" in operation["responses"]
        }
        self.assertEqual(
            result,
            {"GET /guild", "GET /motd/trigger", "POST /motd/", "POST /notification/<currency>"}
            | {f"{method} {block}" for method in ("POST", "PUT", "DELETE")}
            | {f"{method} {friend}" for method in ("POST", "DELETE")},
        )
        both = {name for name in result if "200" in self.operations[name]["responses"]}
        self.assertEqual(both, {"GET /guild"})

    def test_a_row_that_always_refuses_has_no_success(self) -> None:
        closed = Game(self, STORE="off", GUILDS="0").door.rows
        self.operations |= {row.name: operation(row, {}, Credentials()) for row in closed}
        wanted = {"GET /vivox/login", "POST /key/generate", "GET /product/skus/public"}
        successes = {"200", "204", "302"}
        none = {
            n
            for n, operation in self.operations.items()
            if not successes & set(operation["responses"])
        }
        self.assertEqual(none, wanted)

    def test_files_and_events_have_their_content_types(self) -> None:
        events = self.operations["GET /svc/api/DashboardEvents"]["responses"]["200"]
        self.assertEqual(list(events["content"]), ["text/event-stream"])
        part = self.operations["GET /svc/dashboard/<file>"]["responses"]["200"]["content"]
        self.assertIn("text/javascript", part)
        self.assertEqual({kind.partition(";")[0] for kind in KINDS.values()}, set(part))

    def test_summaries_and_descriptions_hold_no_internal_markup(self) -> None:
        self.assertEqual(self.document["servers"][0]["url"], "/")
        tagged = {operation["tags"][0] for operation in self.operations.values()}
        self.assertEqual({operation["name"] for operation in self.document["tags"]}, tagged)
        reported = [operation["description"] for operation in self.document["tags"]]
        reported += [
            operation["description"]
            for operation in self.document["components"]["schemas"].values()
        ]
        reported += [operation["description"] for operation in self.operations.values()]
        summaries = [operation["summary"] for operation in self.operations.values()]
        self.assertNotIn(
            "", [*summaries, *(operation["description"] for operation in self.document["tags"])]
        )
        self.assertEqual([operation for operation in summaries if "`" in operation], [])
        rough = [
            operation
            for operation in (*reported, *summaries)
            if "``" in operation or "Spec:" in operation
        ]
        self.assertEqual(rough, [])
