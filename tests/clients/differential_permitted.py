"""Where salvage's answer and llama-server's may differ, and why. Everything else must be the same.

Each permission names a dialect, a case, a field and what the two values must look like; one that no case
of its topic needs any more is a failure, so that the list can only be as long as the truth.
"""
import dataclasses
import re


@dataclasses.dataclass
class Permission:
    topic: str
    name: str       # for the table
    dialect: str    # regular expressions that must match wholly
    case: str
    field: str
    reason: str
    holds: object = None  # of (ours, theirs); None: whatever they are
    streamed: object = None  # True or False: only so
    used: bool = False

    def allows(self, case, streamed, field, ours, theirs):
        return (re.fullmatch(self.dialect, case.dialect) and re.fullmatch(self.case, case.name)
                and re.fullmatch(self.field, field) and self.streamed in (None, streamed)
                and (self.holds is None or self.holds(ours, theirs)))


HALF = "\N{REPLACEMENT CHARACTER}"  # what a half character is shown as


def half_character(ours, theirs):
    return ours == theirs + HALF


def per_answer(ours, theirs):
    """Two answers of the same length to prompts of the same length, or to one prompt."""
    return ours in ([theirs[0], 2 * theirs[1]], [2 * theirs[0], 2 * theirs[1]])


def without_others(ours, theirs):
    return len(ours) == len(theirs) and all(
        mine[0] == other[0] and abs(mine[1] - other[1]) < 2e-3 and mine[2] == [] and len(other[2]) == 20
        for mine, other in zip(ours, theirs))


def fewer_tokens(ours, theirs):
    """Theirs are among ours, in our order, but for the one that ends an answer."""
    rest = iter(ours)
    return all(token in rest for token in (theirs if theirs[-1] in ours else theirs[:-1]))


def goes_on(ours, theirs):
    return theirs.endswith(ours)


PERMITTED = [
    Permission("talk", "half a character", "chat|completions|completion", ".*", r"(text|content)\[.*",
               "an answer that is cut within a character ends with U+FFFD, whole or streamed; llama-server "
               "does that in whole completions only", half_character),
    Permission("talk", "any JSON", "chat", "any json", r"text\[0\]|usage|reason\[0\]",
               "json_object without a schema is JSON, as OpenAI has it; llama-server lets anything through"),
    Permission("talk", "no alternatives", "chat", "logprobs without others", r"logprobs\[0\]",
               "without top_logprobs there are none, as OpenAI has it; llama-server lists twenty",
               without_others),
    Permission("talk", "what was begun", "chat", "begun.*", r"text\[0\]",
               "an answer that the client began goes on; llama-server repeats what it began with, but in a "
               "stream that continue_final_message asked for", goes_on),
    Permission("talk", "each answer counts", "chat|completions", "two answers|several", "usage",
               "usage is of all answers, as OpenAI has it; llama-server gives that of one", per_answer),
    Permission("talk", "text is text", "chat", "control tokens as text", r"text\[0\]|usage",
               "what a user says never becomes control tokens (docs/decisions/0011-user-text-is-text.md)"),
    Permission("talk", "nothing to go on from", "completions", "nothing", ".*",
               "a prompt without tokens is refused, instead of answered with nothing",
               lambda ours, theirs: ours in (400, [], None)),
    Permission("talk", "ids of all tokens", "completion", ".*", r"tokens\[0\]",
               "a stream names every token but that which ends it; llama-server's leaves out those whose "
               "characters weren't whole", fewer_tokens, streamed=True),
    Permission("talk", "cut is incomplete", "responses", ".*", "status",
               "a response that reached its limit is incomplete, as OpenAI has it",
               lambda ours, theirs: (ours, theirs) == ("incomplete", "completed")),
    Permission("talk", "a schema holds", "responses", "schema", "items|usage|status",
               "text.format is followed, as OpenAI has it; llama-server passes it over"),
]


class Permissions:
    def __init__(self):
        self.all = [dataclasses.replace(permission) for permission in PERMITTED]

    def find(self, case, streamed, field, ours, theirs):
        for permission in self.all:
            if permission.allows(case, streamed, field, ours, theirs):
                permission.used = True
                return permission
        return None

    def of_stream(self, case, field):
        """A stream of llama.cpp's own has every token's id, a whole answer only if asked for them."""
        return case.dialect == "completion" and field.startswith("tokens[")

    def unused(self, topic):
        return [f"permitted, but never needed: {permission.name}" for permission in self.all
                if not permission.used and permission.topic == topic]
