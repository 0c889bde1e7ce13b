"""Shapes: accepted values, tolerated values, and errors for all other values."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from attrs import field, frozen
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import (
    MAX_WHOLE,
    As,
    AtMost,
    Count,
    CountOrDigits,
    First,
    Itself,
    Late,
    Lenient,
    LenientMark,
    Mark,
    Name,
    Or,
    OrEmpty,
    Skipping,
    TextWithNul,
    WholeNumber,
    camel_case,
    pascal_case,
    sent_as,
    spelled,
    text,
    text_where,
    whole,
)
from svcserver.web.openapi import schema

NOTHING_ELSE: tuple[Any, ...] = (None, True, "2x", "", [], {}, 1.5)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@spelled(camel_case)
@frozen
class Stack:
    catalog_id: Annotated[str, text(1, 8)]
    how_many: Count = 1


@spelled(pascal_case)
@frozen
class Trial:
    """An example shape with a field of every type."""

    user_id: str
    colour: Colour
    uses: Annotated[int, whole(1, 1000)] = field(
        default=1, metadata=sent_as("HowOften", message="that often not", code="odd")
    )
    note: Lenient[str] = "none"
    stacks: tuple[Stack, ...] = ()
    flag: bool = False


@frozen
class LenientShape:
    name: Name
    wanted: Lenient[int | None]
    sent: Itself


@frozen
class AllOptional:
    note: Lenient[str] = "none"


@frozen
class Save:
    version: CountOrDigits
    data: Late[str]
    more: Late[str] | None = None


class ShapeTests(SynchronousTestCase):
    def refused(self, shape: Any, value: Any, message: str = "", code: str = "bad_request") -> None:
        why = self.assertRaises(Malformed, reader(shape), value)
        self.assertEqual(why.code, code)
        self.assertIn(message, why.message)

    def test_members_are_read_by_their_names_on_the_wire(self) -> None:
        sent = {"UserId": "a", "Colour": "blue", "HowOften": 3.0, "Stacks": [{"catalogId": "c"}]}
        result = reader(Trial)(sent)
        self.assertEqual(result, Trial("a", Colour.BLUE, 3, "none", (Stack("c", 1),), False))
        self.assertIs(type(result.uses), int)

    def test_a_refusal_names_the_member(self) -> None:
        good = {"UserId": "a", "Colour": "red"}
        self.refused(Trial, good | {"UserId": 5}, "UserId must be a text")
        self.refused(Trial, {"Colour": "red"}, "UserId must be a text")
        self.refused(Trial, good | {"Colour": "green"}, "Colour must be one of red, blue")
        self.refused(Trial, good | {"HowOften": 0}, "that often not", code="odd")
        self.refused(Trial, good | {"Flag": 1}, "Flag must be true or false")
        self.refused(Trial, good | {"Stacks": [{"howMany": 1}]}, "catalogId must be a text")
        self.refused(
            Trial, good | {"Stacks": [7]}, "Stacks must be a list in which each entry is an object"
        )
        self.refused(Trial, [], "the body must be an object")

    def test_whole_numbers_may_be_written_with_a_point(self) -> None:
        for sent in (2, 2.0):
            self.assertEqual(reader(WholeNumber)(sent), 2)
        self.assertEqual(reader(WholeNumber)(-MAX_WHOLE), -MAX_WHOLE)
        for bad in (*NOTHING_ELSE, "2", MAX_WHOLE + 1, 1e300, float("inf"), float("nan")):
            self.refused(WholeNumber, bad)
        for bad in (-1, -1.0):
            self.refused(Count, bad, "at least 0")

    def test_digits_are_a_number_only_where_the_type_says_so(self) -> None:
        for sent in ("2", "02", 2, 2.0):
            self.assertEqual(reader(CountOrDigits)(sent), 2)
        for bad in (*NOTHING_ELSE, "-2", "+2", "\u0662", "2" * 17, "9" * 16, " 2"):
            self.refused(CountOrDigits, bad)

    def test_texts_and_names_of_wrong_length_or_content_are_refused(self) -> None:
        self.refused(str, "a\0b", "a text")
        self.assertEqual(reader(TextWithNul)("a\0b"), "a\0b")
        self.assertEqual(reader(Name)("n" * 128), "n" * 128)
        for bad in ("", "n" * 129, "a\nb", 7):
            self.refused(Name, bad)
        self.refused(Annotated[str, text(1, 3)], "four", "1 to 3 characters")

    def test_numbers_choices_and_objects_are_read_or_refused_by_type(self) -> None:
        self.assertEqual(reader(float)(2), 2.0)
        self.refused(float, True)
        self.assertEqual(reader(Literal["a", "b"])("b"), "b")
        self.refused(Literal["a", "b"], "c")
        self.assertEqual(reader(dict[str, int])({"a": 1}), {"a": 1})
        self.refused(dict[str, int], {"a": "1"})
        self.assertEqual(reader(list[int] | dict[str, Any])({"a": []}), {"a": []})
        self.refused(list[int] | dict[str, int], 5, "a list or an object")
        self.assertEqual(reader(Stack | LenientShape)({"name": "n"}).name, "n")
        self.refused(Stack | LenientShape, {}, "catalogId must be")
        self.assertIs(reader(str | None)(None), None)

    def test_a_lenient_value_that_does_not_fit_counts_as_missing(self) -> None:
        good = {"UserId": "a", "Colour": "red"}
        unfit: tuple[Any, ...] = (7, None, [], "a\0")
        for sent in unfit:
            self.assertEqual(reader(Trial)(good | {"Note": sent}).note, "none")
        self.assertEqual(reader(LenientShape)({"name": "n"}).wanted, None)
        self.assertEqual(reader(LenientShape)({"name": "n", "wanted": "x"}).wanted, None)
        self.assertEqual(reader(Lenient[int])("x"), None)
        self.assertEqual(reader(Annotated[str | None, Or("?")])(7), "?")
        self.assertEqual(reader(Annotated[str | None, Or("?")])(None), None)

    def test_lists_skip_bad_entries_or_are_cut_or_refused_by_length(self) -> None:
        self.assertEqual(reader(Skipping[Stack])([{"catalogId": "a"}, 7, {}]), (Stack("a"),))
        self.refused(Skipping[str], {})
        self.assertEqual(reader(Annotated[Skipping[str], First(2)])([1, "a", "b"]), ("a",))
        self.refused(Annotated[tuple[int, ...], AtMost(2)], [1, 2, 3], "at most 2")

    def test_an_object_keeps_its_source_and_or_empty_accepts_a_list(self) -> None:
        sent = {"name": "n", "other": [1]}
        self.assertIs(reader(LenientShape)(sent).sent, sent)
        self.assertEqual(reader(OrEmpty[AllOptional])([]), AllOptional("none"))

    def test_a_late_value_is_refused_when_it_is_read(self) -> None:
        result = reader(Save)({"version": "3", "data": "text"})
        self.assertEqual(
            (result.version, result.data.parse_value(), result.more), (3, "text", None)
        )
        for sent in ({"version": 3}, {"version": 3, "data": 5}):
            late = reader(Save)(sent).data
            why = self.assertRaises(Malformed, late.parse_value)
            self.assertEqual((why.message, why.code), ("data must be a text", "bad_request"))
        more = reader(Save)({"version": 3, "data": "", "more": 7}).more
        why = self.assertRaises(Malformed, more.parse_value)
        self.assertEqual(why.message, "more must be a text")
        self.assertIs(reader(Save)({"version": 3, "data": "", "more": None}).more, None)
        self.refused(Save, {"data": "text"}, "version must be")
        whole_body = reader(Late[Save])([])
        why = self.assertRaises(Malformed, whole_body.parse_value)
        self.assertEqual(why.message, "the body must be an object")

    def test_a_mutable_default_raises_type_error(self) -> None:
        @frozen
        class Wrong:
            names: list[str] = field(factory=list)

        self.assertRaises(TypeError, reader, Wrong)

    def test_the_schema_of_a_shape_lists_its_members_and_types(self) -> None:
        schemas: dict[str, Any] = {}
        schema(Trial, schemas)
        shown = schemas["Trial"]
        self.assertEqual(
            list(shown["properties"]), ["UserId", "Colour", "HowOften", "Note", "Stacks", "Flag"]
        )
        self.assertEqual(shown["required"], ["UserId", "Colour"])
        self.assertEqual(shown["properties"]["Colour"], {"type": "string", "enum": ["red", "blue"]})
        self.assertEqual(shown["properties"]["HowOften"], {"type": "integer"})
        self.assertEqual(schemas["Stack"]["required"], ["catalogId"])
        schema(Late[LenientShape], schemas)
        self.assertEqual(list(schemas["LenientShape"]["properties"]), ["name", "wanted"])
        bounded = schema(Annotated[tuple[int, ...], AtMost(2)], {})
        self.assertEqual(bounded["maxItems"], 2)


class EdgeTests(SynchronousTestCase):
    """Each test creates its own types, so that a fault in their creation is found."""

    def fits(self, kind: Any, *values: Any) -> None:
        for value in values:
            self.assertEqual(reader(kind)(value), value)

    def unfit(self, kind: Any, wanted: str, *values: Any) -> None:
        for value in values:
            why = self.assertRaises(Malformed, reader(kind), value)
            self.assertEqual(why.message, f"the body must be {wanted}")

    def test_whole_numbers_are_accepted_up_to_their_bounds(self) -> None:
        self.fits(Annotated[int, whole(1, 3)], 1, 3)
        self.unfit(Annotated[int, whole(1, 3)], "a whole number from 1 to 3", 0, 4, 2.5, True, "2")
        self.fits(Annotated[int, whole()], MAX_WHOLE, -MAX_WHOLE)
        self.unfit(Annotated[int, whole()], "a whole number", MAX_WHOLE + 1, -MAX_WHOLE - 1)
        self.assertEqual(MAX_WHOLE, 9_007_199_254_740_991)
        self.fits(Annotated[int, whole(0)], 0)
        self.unfit(Annotated[int, whole(0)], "a whole number of at least 0", -1, None)

    def test_digit_texts_are_numbers_up_to_their_length_limit(self) -> None:
        kind = Annotated[int, whole(0, 999, digits=3)]
        self.assertEqual(
            [reader(kind)(value) for value in ("7", "007", "999", 7.0)], [7, 7, 999, 7]
        )
        self.unfit(kind, "a whole number from 0 to 999", "0007", "", "-7", "²", "x")
        either = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        self.assertEqual(schema(kind, {}), either)
        self.assertEqual(schema(Annotated[int, whole(0, 9)], {}), {"type": "integer"})

    def test_texts_are_accepted_within_their_length_bounds(self) -> None:
        kind = Annotated[str, text(2, 3)]
        self.fits(kind, "ab", "abc")
        self.unfit(kind, "a text of 2 to 3 characters", "a", "abcd", "a\0", 12, None)
        self.fits(Annotated[str, text(1)], "a", "a" * 10_000)
        self.unfit(Annotated[str, text(1)], "a text of at least 1 characters", "", 7)
        self.assertEqual(schema(kind, {}), {"type": "string"})
        plain = Annotated[str, text_where(str.isupper, "in capitals")]
        self.fits(plain, "AB")
        self.unfit(plain, "in capitals", "ab", 7, ["AB"])
        self.assertEqual(schema(plain, {}), {"type": "string"})

    def test_lists_are_accepted_up_to_their_length_bound(self) -> None:
        kind = Annotated[list[str], AtMost(2)]
        self.fits(kind, [], ["a", "b"])
        self.unfit(kind, "a list of at most 2", ["a", "b", "c"])
        self.unfit(kind, "a list", "abc", {}, None)
        self.unfit(kind, "a list in which each entry is a text", ["a", 7])

    def test_members_of_any_type_are_kept_unchanged(self) -> None:
        @frozen
        class Open:
            value: Any
            more: dict[str, Any]

        held: dict[str, Any] = {"a": [1]}
        made = reader(Open)({"value": None, "more": held})
        self.assertEqual((made.value, made.more), (None, held))
        self.assertIs(made.more, held)
        incomplete: tuple[dict[str, Any], ...] = ({"more": {}}, {"value": 1})
        for missing in incomplete:
            self.assertRaises(Malformed, reader(Open), missing)

    def test_null_is_accepted_only_by_an_optional_type(self) -> None:
        kind = Annotated[int, whole(0, 9)] | None
        self.assertIs(reader(kind)(None), None)
        self.assertEqual(reader(kind)(3), 3)
        self.unfit(kind, "a whole number from 0 to 9", 10)
        self.assertRaises(Malformed, reader(list[int] | dict[str, int]), None)

    def test_predefined_text_and_number_types_refuse_other_values(self) -> None:
        self.fits(TextWithNul, "", "a\0b")
        self.unfit(TextWithNul, "a text", 7, None)
        self.assertEqual(reader(CountOrDigits)("0" * 16), 0)
        self.unfit(CountOrDigits, "a whole number of at least 0", "0" * 17)
        self.assertEqual((camel_case("a_bc_d"), pascal_case("a_bc_d")), ("aBcD", "ABcD"))

    def test_sent_as_adds_a_mark_for_each_argument(self) -> None:
        self.assertEqual(len(sent_as("Key")), 1)
        self.assertEqual(len(sent_as(message="No.")), 1)
        self.assertEqual(len(sent_as("Key", message="No.", code="no")), 3)

    def test_a_mark_without_effect_leaves_the_type_unchanged(self) -> None:
        kind = Annotated[int, Mark()]
        self.fits(kind, 3)
        self.unfit(kind, "a whole number", "3")
        self.assertEqual(schema(kind, {}), {"type": "integer"})

    def test_a_first_mark_refuses_values_that_are_no_list(self) -> None:
        self.unfit(Annotated[list[str], First(2)], "a list", 7, {"a": 1}, None)
        stored = reader(OrEmpty[AllOptional])
        self.assertEqual(stored({"note": "mine"}), AllOptional("mine"))

    def test_a_late_value_is_in_no_repr(self) -> None:
        late = reader(Save)({"version": 3, "data": "secret"}).data
        self.assertEqual(repr(late), "Late(name='data')")

    def test_a_member_of_any_type_must_be_present(self) -> None:
        @frozen
        class Open:
            value: Any
            held: object

        made = reader(Open)({"value": [1], "held": {"a": 1}})
        self.assertEqual((made.value, made.held), ([1], {"a": 1}))
        why = self.assertRaises(Malformed, reader(Open), {"held": 1})
        self.assertEqual(why.message, "value must be present")

    def test_a_type_without_a_reader_is_read_by_its_mark(self) -> None:
        class Ours:
            """A type for which there is no reader."""

        ours = Ours()
        read = reader(Annotated[Ours, As(lambda value, _: ours, {})])
        self.assertIs(read("x"), ours)

    def test_a_bad_optional_value_is_refused_by_the_name_of_its_type(self) -> None:
        self.unfit(int | None, "a whole number", "x")
        self.unfit(Stack | None, "an object", "x")

    def test_a_lenient_member_still_obeys_its_other_marks(self) -> None:
        @frozen
        class Short:
            name: Annotated[str, text(1, 3), LenientMark()] = "?"
            plain: Annotated[str, LenientMark()] = "?"

        self.assertEqual(reader(Short)({"name": "abc", "plain": "abcd"}), Short("abc", "abcd"))
        self.assertEqual(reader(Short)({"name": "abcd", "plain": 7}), Short("?", "?"))
