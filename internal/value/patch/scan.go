package patch

import (
	"bytes"
	"fmt"
)

const (
	null = "null"
	// few is how many members are searched one after the other.
	few = 16
)

// member is a member of an object: the key with its quotes, and the value.
type member struct{ key, value []byte }

// isObject reports whether a value begins as an object does.
func isObject(value []byte) bool {
	at := blank(value, 0)
	return at < len(value) && value[at] == '{'
}

// membersOf returns the members of an object.
func membersOf(object []byte) ([]member, error) {
	all := make([]member, 0, few)
	err := each(object, func(m member) error {
		all = append(all, m)
		return nil
	})
	return all, err
}

// table finds members by key. It is nil for few members.
type table map[string]int

func index(all []member) table {
	if len(all) <= few {
		return nil
	}
	at := make(table, len(all))
	for i, m := range all {
		at[string(m.key)] = i
	}
	return at
}

func (t table) find(all []member, key []byte) (int, bool) {
	if t != nil {
		i, there := t[string(key)]
		return i, there
	}
	for i := range all {
		if bytes.Equal(all[i].key, key) {
			return i, true
		}
	}
	return 0, false
}

// keys are those of an object that came. more has those beyond the first.
type keys struct {
	first [few / 2][]byte
	count int
	more  map[string]bool
}

// add adds a key, and reports whether it is new.
func (k *keys) add(key []byte) bool {
	for _, other := range k.first[:k.count] {
		if bytes.Equal(other, key) {
			return false
		}
	}
	switch {
	case k.count < len(k.first):
		k.first[k.count] = key
		k.count++
	case k.more[string(key)]:
		return false
	case k.more == nil:
		k.more = map[string]bool{string(key): true}
	default:
		k.more[string(key)] = true
	}
	return true
}

// each calls one for each member of an object, until it returns an error. It finds where values begin and end, and does
// not check what is in them.
func each(object []byte, one func(member) error) error { //nolint:gocognit // the grammar of an object, a line for each of its signs
	at := blank(object, blank(object, 0)+1) // behind the brace
	if at < len(object) && object[at] == '}' {
		return nil
	}
	for at < len(object) {
		var m member
		begin := at
		if at = end(object, at); object[begin] != '"' {
			break
		}
		m.key = object[begin:at]
		if at = blank(object, at); at >= len(object) || object[at] != ':' {
			break
		}
		begin = blank(object, at+1)
		at = end(object, begin)
		if m.value = object[min(begin, at):at]; len(m.value) == 0 {
			break
		}
		if err := one(m); err != nil {
			return err
		}
		if at = blank(object, at); at >= len(object) || object[at] != ',' && object[at] != '}' {
			break
		}
		if object[at] == '}' {
			return nil
		}
		at = blank(object, at+1)
	}
	return fmt.Errorf("%w: byte %d of an object", ErrSyntax, at)
}

// blank returns the place of the next byte that is no white space.
func blank(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// end returns the place behind the value that begins at a place, at most the end of the text.
func end(text []byte, at int) int {
	for depth := 0; at < len(text); {
		switch text[at] {
		case '"':
			at = behind(text, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\n', '\t', '\r':
			at++
			continue
		default:
			at = literal(text, at)
		}
		if depth <= 0 {
			break
		}
	}
	return at
}

// key returns the place behind a key and its colon, or at if there is none.
func key(text []byte, at int) int {
	if at >= len(text) || text[at] != '"' {
		return at
	}
	after := behind(text, at)
	if after >= len(text) || text[after] != ':' {
		return at
	}
	return after + 1
}

// behind returns the place behind a string.
func behind(text []byte, at int) int {
	for at++; at < len(text); {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			break
		}
		slash := bytes.IndexByte(text[at:at+quote], '\\')
		if slash < 0 {
			return at + quote + 1
		}
		at += slash + 2
	}
	return len(text)
}

// literal returns the place behind a number, true, false or null.
func literal(text []byte, at int) int {
	for ; at < len(text); at++ {
		switch text[at] {
		case ',', ']', '}', ':', ' ', '\n', '\t', '\r', '"', '{', '[':
			return at
		}
	}
	return at
}
