package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"
	"unicode/utf8"

	"github.com/berth-project/berth/internal/engine/plan"
)

// version is the only format that this package reads and writes.
const version = 2

type kind string

const (
	kindHeader   kind = "header"
	kindOriginal kind = "original"
	kindIntent   kind = "intent"
	kindRebase   kind = "rebase"
	kindForget   kind = "forget"
	kindThreads  kind = "threads"
)

// record is one line of the journal. The kind determines which fields are used.
type record struct {
	Kind     kind          `json:"kind"`
	Version  int           `json:"version,omitempty"`
	Boot     string        `json:"boot,omitempty"`
	Driver   plan.Driver   `json:"driver,omitempty"`
	Object   string        `json:"object,omitempty"`
	Knob     string        `json:"knob,omitempty"`
	From     plan.Value    `json:"from,omitempty"`
	Value    plan.Value    `json:"value,omitempty"`
	ID       plan.Identity `json:"id,omitempty"`
	Lifetime plan.Lifetime `json:"lifetime,omitempty"`
	Owner    plan.Owner    `json:"owner,omitempty"`
	Workload string        `json:"workload,omitempty"`
	Why      string        `json:"why,omitempty"`
	Since    *time.Time    `json:"since,omitempty"`
	Writes   int           `json:"writes,omitempty"`
	Threads  []Thread      `json:"threads,omitempty"`
	last
}

// last has the fields of an entry about its last intent.
type last struct {
	Intent   plan.Value `json:"intent,omitempty"`
	Previous plan.Value `json:"previous,omitempty"`
	Made     plan.Value `json:"made,omitempty"`
	Owned    bool       `json:"owned,omitempty"`
}

func headerRecord(boot string) record {
	return record{Kind: kindHeader, Version: version, Boot: boot}
}

func targetRecord(k kind, t plan.Target) record {
	return record{Kind: k, Driver: t.Driver, Object: t.Object, Knob: t.Knob}
}

// intentRecord names an owner or an identity only if it differs from the entry's.
func intentRecord(kinds plan.Kinds, e Entry, c plan.Change) record {
	r := targetRecord(kindIntent, c.Target)
	r.From, r.Value = c.From, c.Value
	if c.ID != e.ID {
		r.ID = c.ID
	}
	if e.isTakenOver(kinds, c) {
		r.Owner, r.Workload, r.Why = c.Owner, c.Workload, c.Why
	}
	return r
}

// madeRecord records the value that the host made of the intent of an entry. A version of Berth that does not know the
// field made reads the record as another intent, over a value on the way.
func madeRecord(e Entry, made plan.Value) record {
	r := targetRecord(kindIntent, e.Target)
	r.From, r.Value, r.Made = made, e.Intent, made
	return r
}

// originalRecord contains a whole entry, as a rewrite needs.
func originalRecord(e Entry) record {
	r := targetRecord(kindOriginal, e.Target)
	r.Boot, r.Value, r.Writes = e.Boot, e.Original, e.Writes
	r.last = last{e.Intent, e.Previous, e.Made, e.Owned}
	r.ID, r.Lifetime, r.Since = e.ID, e.Lifetime, &e.Since
	r.Owner, r.Workload, r.Why, r.Threads = e.Owner, e.Workload, e.Why, e.Threads
	return r
}

func (r record) target() plan.Target {
	return plan.Target{Driver: r.Driver, Object: r.Object, Knob: r.Knob}
}

func (r record) entry() Entry {
	e := Entry{
		Target: r.target(), ID: r.ID, Boot: r.Boot, Lifetime: r.Lifetime,
		Original: r.Value, Intent: r.Intent, Previous: r.Previous, Made: r.Made, Owned: r.Owned,
		Owner: r.Owner, Workload: r.Workload, Why: r.Why, Writes: r.Writes, Threads: r.Threads,
	}
	if r.Since != nil {
		e.Since = *r.Since
	}
	return e
}

// check refuses entries that JSON would change silently or that could not be replayed.
func (e Entry) check() error {
	switch {
	case e.Target.Driver == "" || e.Target.Object == "" || e.Target.Knob == "":
		return fmt.Errorf("%s: no driver, no object or no knob: %w", e.Target, ErrBadEntry)
	case !utf8.ValidString(string(e.Target.Driver)) || !utf8.ValidString(e.Target.Object) || !utf8.ValidString(e.Target.Knob):
		return fmt.Errorf("%q: name is not UTF-8: %w", e.Target, ErrBadEntry)
	case !utf8.ValidString(string(e.ID)):
		return fmt.Errorf("%s: identity %q is not UTF-8: %w", e.Target, e.ID, ErrBadEntry)
	case e.Original == "":
		return fmt.Errorf("%s: no original value: %w", e.Target, ErrBadEntry)
	}
	return nil
}

// The frame around a record. Its parts are fixed text, so that the checksum covers exactly the bytes between them.
const (
	frameCRC = `{"crc":"`
	frameRec = `","rec":`
	crcSize  = 8 // hexadecimal digits
	frameEnd = "}"
)

func checksum(payload []byte) uint32 {
	return crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli))
}

// encode returns the line of a record, with its newline.
func encode(r record) ([]byte, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode %s record: %w", r.Kind, err)
	}
	return fmt.Appendf(nil, "%s%08x%s%s%s\n", frameCRC, checksum(payload), frameRec, payload, frameEnd), nil
}

// encodeAll returns the lines of all records.
func encodeAll(records []record) ([]byte, error) {
	var lines []byte
	for _, r := range records {
		line, err := encode(r)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line...)
	}
	return lines, nil
}

// decode reads a line without its newline. The reason is "" for a good line.
func decode(line []byte) (r record, reason string) {
	rest, ok := bytes.CutPrefix(line, []byte(frameCRC))
	if !ok || len(rest) < crcSize {
		return record{}, "not a record"
	}
	digits, rest := rest[:crcSize], rest[crcSize:]
	rest, okRec := bytes.CutPrefix(rest, []byte(frameRec))
	payload, okEnd := bytes.CutSuffix(rest, []byte(frameEnd))
	if !okRec || !okEnd {
		return record{}, "not a record"
	}
	if got := fmt.Sprintf("%08x", checksum(payload)); got != string(digits) {
		return record{}, fmt.Sprintf("checksum is %s, not %s", got, digits)
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return record{}, fmt.Sprintf("not a record: %v", err)
	}
	return r, ""
}
