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
//
// A patch may come from another host, which may be compromised. Its work is linear in the bytes of both values: no object
// may have a key twice, and objects nest at most 64 deep.
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
	// ErrSyntax means that a value is not JSON, or that an object has a key twice.
	ErrSyntax = errors.New("not JSON")
	// ErrDepth means that objects are nested deeper than 64.
	ErrDepth = errors.New("objects nested deeper than 64")
)

// deepest is how deep objects nest: each level looks for the ends of the values within again.
const deepest = 64

// Diff appends to dst the patch that makes before into after. It appends nothing if their bytes are equal. No object may
// have a key twice. After an error it returns dst as it was.
func Diff(dst, before, after []byte) ([]byte, error) {
	if bytes.Equal(before, after) {
		return dst, nil
	}
	out, err := difference(dst, before, after, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func difference(dst, before, after []byte, depth int) ([]byte, error) {
	if !isObject(before) || !isObject(after) {
		return append(dst, after...), settable(after, depth)
	}
	var room [few / 2]replaced
	all, is := aligned(room[:0], before, after)
	if !is {
		return unaligned(dst, before, after, depth)
	}
	dst = append(dst, '{')
	begin := len(dst)
	for i := range all {
		var err error
		if dst, err = change(dst, begin, &all[i], depth); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// unaligned is difference for two objects with members in any order.
func unaligned(dst, before, after []byte, depth int) ([]byte, error) {
	was, err := membersOf(before)
	if err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	begin := len(dst)
	at := index(was)
	seen := make([]bool, len(was))
	err = each(after, func(m member) (err error) {
		r := replaced{member: m}
		if i, there := at.find(was, m.key); there {
			r.old, seen[i] = was[i].value, true
		}
		if !bytes.Equal(r.old, m.value) {
			dst, err = change(dst, begin, &r, depth)
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

// replaced is a member of an object with its new value, or the changes of it, and its old value, nil if it is new.
type replaced struct {
	member
	old []byte
}

// change appends a member with the patch of its value.
func change(dst []byte, begin int, m *replaced, depth int) ([]byte, error) {
	if string(m.value) == null {
		return dst, fmt.Errorf("%w: %s", ErrNull, m.key)
	}
	if depth++; depth > deepest {
		return dst, ErrDepth
	}
	dst = append(append(comma(dst, begin), m.key...), ':')
	return difference(dst, m.old, m.value, depth)
}

// aligned appends the members with other values of two objects that have the same keys in the same order, and no white
// space. It reports whether they are such objects. This is the usual case, and needs one look at each byte. It does not
// look into values: for objects that are not aligned that would be done again, twice as often with each level.
func aligned(out []replaced, before, after []byte) (all []replaced, is bool) {
	for i, j := 1, 1; ; i, j = i+1, j+1 {
		first := i
		i = key(before, i)
		if i == first || !bytes.HasPrefix(after[min(j, len(after)):], before[first:i]) {
			return nil, false
		}
		m := replaced{member: member{key: before[first : i-1]}}
		first, j = i, j+i-first
		i = end(before, i)
		m.old = before[first:i]
		if there := len(m.old) > 0 && i < len(before) && bytes.HasPrefix(after[j:], before[first:i+1]); there {
			j += len(m.old)
		} else {
			first, j = j, end(after, j)
			if m.value = after[first:j]; len(m.value) == 0 || len(m.old) == 0 {
				return nil, false
			}
			out = append(out, m)
		}
		switch {
		case i >= len(before) || j >= len(after) || before[i] != after[j]:
			return nil, false
		case before[i] == '}':
			return out, true
		case before[i] != ',':
			return nil, false
		}
	}
}

// Merge appends to dst the value that target becomes by a patch. After an error it returns dst as it was.
func Merge(dst, target, patch []byte) ([]byte, error) {
	out, err := merge(dst, target, patch, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func merge(dst, target, patch []byte, depth int) ([]byte, error) {
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
	put := func(m replaced) (err error) {
		dst, err = replace(dst, begin, m, depth)
		return err
	}
	if isObject(target) {
		err = each(target, func(m member) error {
			i, there := at.find(changes, m.key)
			if !there {
				dst = append(append(append(comma(dst, begin), m.key...), ':'), m.value...)
				return nil
			}
			if done[i] {
				return twice(m.key)
			}
			done[i] = true
			return put(replaced{member: changes[i], old: m.value})
		})
	}
	for i, m := range changes {
		if !done[i] && err == nil {
			err = put(replaced{member: m})
		}
	}
	return append(dst, '}'), err
}

// replace appends a member with its changes, unless they are null.
func replace(dst []byte, begin int, m replaced, depth int) ([]byte, error) {
	if string(m.value) == null {
		return dst, nil
	}
	if depth == deepest {
		return dst, ErrDepth
	}
	dst = append(append(comma(dst, begin), m.key...), ':')
	return merge(dst, m.old, m.value, depth+1)
}

// comma separates a member from the one before.
func comma(dst []byte, begin int) []byte {
	if len(dst) > begin {
		dst = append(dst, ',')
	}
	return dst
}

// settable returns ErrNull for an object with a member that is null. Null in a list does not matter.
func settable(value []byte, depth int) error {
	if !isObject(value) {
		return nil
	}
	if depth == deepest {
		return ErrDepth
	}
	return each(value, func(m member) error {
		if string(m.value) == null {
			return fmt.Errorf("%w: %s", ErrNull, m.key)
		}
		return settable(m.value, depth+1)
	})
}

// twice is the error of a key that an object has twice. Work for each of them would not be linear.
func twice(key []byte) error { return fmt.Errorf("%w: key %.200s twice", ErrSyntax, key) }

// Members calls one for each member of an object: its key without quotes, and its value. Both are parts of the object.
// The error for a key that comes again is ErrSyntax.
func Members(object []byte, one func(key, value []byte) error) error {
	if !isObject(object) {
		return fmt.Errorf("%w: no object", ErrSyntax)
	}
	var seen keys
	return each(object, func(m member) error {
		key := m.key[1 : len(m.key)-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			var text string
			if err := json.Unmarshal(m.key, &text); err != nil {
				return fmt.Errorf("%w: key %s", ErrSyntax, m.key)
			}
			key = []byte(text)
		}
		if !seen.add(key) {
			return twice(key)
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
