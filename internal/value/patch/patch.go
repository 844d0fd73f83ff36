// Package patch says what differs between two encoded JSON values, and applies the difference: a JSON merge patch as RFC
// 7396 defines it. A patch of an object has the changed and new members with their values, and null for each member that
// is gone. A member that is an object on both sides has a patch of its own; any other member is replaced as a whole, and
// so is a list.
//
// The package reads bytes in one pass and decodes no value. It compares values by their bytes, so both values must come
// from one encoder. Members keep their order, and a new member comes last.
//
// A merge patch cannot set a member to null, because null removes it. Diff returns ErrNull for such a value, and its
// caller then sends the whole value. Null inside a list has no such limit.
package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Errors of values.
var (
	// ErrNull means that no patch makes the value, because a new or changed member is null.
	ErrNull = errors.New("a merge patch cannot set a member to null")
	// ErrSyntax means that a value is not JSON.
	ErrSyntax = errors.New("not JSON")
)

// Diff appends to dst the patch that makes before into after. It appends nothing if their bytes are equal. No object may
// have a key twice. After an error it returns dst as it was.
func Diff(dst, before, after []byte) ([]byte, error) {
	if bytes.Equal(before, after) {
		return dst, nil
	}
	out, err := difference(dst, before, after)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func difference(dst, before, after []byte) ([]byte, error) {
	if !isObject(before) || !isObject(after) {
		return append(dst, after...), settable(after)
	}
	if out, is, err := aligned(dst, before, after); is || err != nil {
		return out, err
	}
	was, err := membersOf(before)
	if err != nil {
		return dst, err
	}
	at := index(was)
	seen := make([]bool, len(was))
	dst = append(dst, '{')
	begin := len(dst)
	err = each(after, func(m member) (err error) {
		var old []byte
		if i, there := at.find(was, m.key); there {
			old, seen[i] = was[i].value, true
		}
		if !bytes.Equal(old, m.value) {
			dst, err = change(dst, begin, m, old)
		}
		return err
	})
	for i, m := range was {
		if !seen[i] {
			dst = append(append(append(comma(dst, begin), m.key...), ':'), null...)
		}
	}
	return append(dst, '}'), err
}

// change appends a member with the patch of its value.
func change(dst []byte, begin int, m member, old []byte) ([]byte, error) {
	if string(m.value) == null {
		return dst, fmt.Errorf("%w: %s", ErrNull, m.key)
	}
	dst = append(append(comma(dst, begin), m.key...), ':')
	return difference(dst, old, m.value)
}

// aligned is difference for two objects that have the same keys in the same order, and no white space. It reports whether
// they are. This is the usual case, and needs one look at each byte.
func aligned(dst, before, after []byte) (out []byte, is bool, err error) { //nolint:gocognit // one walk along two texts, with both places in view
	out = append(dst, '{')
	begin := len(out)
	for i, j := 1, 1; ; i, j = i+1, j+1 {
		first := i
		i = key(before, i)
		if i == first || !bytes.HasPrefix(after[min(j, len(after)):], before[first:i]) {
			return dst, false, nil
		}
		m := member{key: before[first : i-1]}
		first, j = i, j+i-first
		i = end(before, i)
		old := before[first:i]
		if there := len(old) > 0 && i < len(before) && bytes.HasPrefix(after[j:], before[first:i+1]); there {
			j += len(old)
		} else {
			first, j = j, end(after, j)
			if m.value = after[first:j]; len(m.value) == 0 || len(old) == 0 {
				return dst, false, nil
			}
			if out, err = change(out, begin, m, old); err != nil {
				return dst, false, err
			}
		}
		switch {
		case i >= len(before) || j >= len(after) || before[i] != after[j]:
			return dst, false, nil
		case before[i] == '}':
			return append(out, '}'), true, nil
		case before[i] != ',':
			return dst, false, nil
		}
	}
}

// Merge appends to dst the value that target becomes by a patch. After an error it returns dst as it was.
func Merge(dst, target, patch []byte) ([]byte, error) {
	out, err := merge(dst, target, patch)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func merge(dst, target, patch []byte) ([]byte, error) {
	if !isObject(patch) {
		return append(dst, bytes.TrimSpace(patch)...), nil
	}
	changes, err := membersOf(patch)
	if err != nil {
		return dst, err
	}
	at := index(changes)
	done := make([]bool, len(changes))
	dst = append(dst, '{')
	begin := len(dst)
	put := func(m member, change []byte) error {
		if string(change) == null {
			return nil
		}
		dst = append(append(comma(dst, begin), m.key...), ':')
		var err error
		dst, err = merge(dst, m.value, change)
		return err
	}
	if isObject(target) {
		err = each(target, func(m member) error {
			i, there := at.find(changes, m.key)
			if !there {
				dst = append(append(append(comma(dst, begin), m.key...), ':'), m.value...)
				return nil
			}
			done[i] = true
			return put(m, changes[i].value)
		})
	}
	for i, m := range changes {
		if !done[i] && err == nil {
			err = put(member{key: m.key}, m.value)
		}
	}
	return append(dst, '}'), err
}

// comma separates a member from the one before.
func comma(dst []byte, begin int) []byte {
	if len(dst) > begin {
		dst = append(dst, ',')
	}
	return dst
}

// settable returns ErrNull for an object with a member that is null. Null in a list does not matter.
func settable(value []byte) error {
	if !isObject(value) || !bytes.Contains(value, []byte(null)) {
		return nil
	}
	return each(value, func(m member) error {
		if string(m.value) == null {
			return fmt.Errorf("%w: %s", ErrNull, m.key)
		}
		return settable(m.value)
	})
}

// Members calls one for each member of an object: its key without quotes, and its value. Both are parts of the object.
func Members(object []byte, one func(key, value []byte) error) error {
	if !isObject(object) {
		return fmt.Errorf("%w: no object", ErrSyntax)
	}
	return each(object, func(m member) error {
		key := m.key[1 : len(m.key)-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			var text string
			if err := json.Unmarshal(m.key, &text); err != nil {
				return fmt.Errorf("%w: key %s", ErrSyntax, m.key)
			}
			key = []byte(text)
		}
		return one(key, m.value)
	})
}

// Elements calls one for each element of a list. An element is a part of the list.
func Elements(list []byte, one func(element []byte) error) error {
	at := blank(list, 0)
	if at >= len(list) || list[at] != '[' {
		return fmt.Errorf("%w: no list", ErrSyntax)
	}
	if at = blank(list, at+1); at < len(list) && list[at] == ']' {
		return nil
	}
	for at < len(list) {
		begin := at
		if at = end(list, begin); at == begin {
			break
		}
		if err := one(list[begin:at]); err != nil {
			return err
		}
		if at = blank(list, at); at >= len(list) || list[at] != ',' && list[at] != ']' {
			break
		}
		if list[at] == ']' {
			return nil
		}
		at = blank(list, at+1)
	}
	return fmt.Errorf("%w: byte %d of a list", ErrSyntax, at)
}
