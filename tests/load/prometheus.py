"""Prometheus' text format, read as strictly as a scraper may: what it can't read fails the test."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


def _labels(text):
    labels, at = {}, 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found, f"no label: {text[at:]!r}"
        assert found[1] not in labels, f"a label twice: {text!r}"
        labels[found[1]] = found[2]
        at = found.end()
    return labels


class Metrics:
    """A page of metrics. `of(name, label=value)`: the one sample that has these labels."""

    def __init__(self, text):
        assert text.endswith("\n"), "the last line has no end"
        self.types, self.samples, self.family = {}, {}, None
        for line in text.splitlines():
            if line.startswith("#"):
                self._comment(line)
            else:
                self._sample(line)
        for name, kind in self.types.items():
            if kind == "histogram":
                self._check_histogram(name)

    def _comment(self, line):
        _, word, name, rest = line.split(" ", 3)
        assert word in ("HELP", "TYPE"), line
        if word == "TYPE":
            assert rest in TYPES and name not in self.types, f"a type that is none, or is there: {line!r}"
            self.types[name] = rest
        self.family = name

    def _sample(self, line):
        found = SAMPLE.fullmatch(line)
        assert found, f"no sample: {line!r}"
        name, labels = found[1], _labels(found[2] or "")
        kind = self.types.get(self.family)
        allowed = [self.family + suffix for suffix in SUFFIXES.get(kind, ("",))]
        assert kind and name in allowed, f"not below its own family {self.family}: {line!r}"
        key = (name, tuple(sorted(labels.items())))
        assert key not in self.samples, f"a sample twice: {line!r}"
        self.samples[key] = float(found[3])

    def _check_histogram(self, name):
        buckets = [value for (one, _), value in self.samples.items() if one == f"{name}_bucket"]
        assert buckets and buckets == sorted(buckets), f"buckets of {name} fall: {buckets}"
        equal = self.of(f"{name}_bucket", le="+Inf") == self.of(f"{name}_count") == buckets[-1]
        assert equal, f"{name} has no bucket for all"

    def all(self, name, **labels):
        """Every sample of this name with these labels, by all its labels."""
        wanted = labels.items()
        return {key[1]: value for key, value in self.samples.items()
                if key[0] == name and wanted <= dict(key[1]).items()}

    def of(self, name, **labels):
        found = self.all(name, **labels)
        assert len(found) == 1, f"{len(found)} samples {name} {labels}"
        return next(iter(found.values()))

    def sum(self, name, **labels):
        return sum(self.all(name, **labels).values())

    def by(self, label, name, **labels):
        return {dict(key)[label]: value for key, value in self.all(name, **labels).items()}
