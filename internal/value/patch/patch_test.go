package patch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/patch"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestMerge checks the cases of RFC 7396, appendix A.
func TestMerge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{` { "a" : 1 , "b" : [ 1 , "]}" ] } `, ` { "a" : 2 } `, `{"a":2,"b":[ 1 , "]}" ]}`},
	} {
		got, err := patch.Merge(nil, []byte(c.target), []byte(c.patch))
		if string(got) != c.want || err != nil {
			t.Errorf("%s with %s: %s, want %s: %v", c.target, c.patch, got, c.want, err)
		}
	}
}

// TestDiff checks what a patch has, and which values have none.
func TestDiff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after, want string
		err                 error
	}{
		{`{"a":1}`, `{"a":1}`, ``, nil},
		{`{"a":1,"b":2}`, `{"a":1,"b":3}`, `{"b":3}`, nil},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{}`, nil},
		{`{"a":1,"b":2}`, `{"b":2,"c":{"d":[null]}}`, `{"c":{"d":[null]},"a":null}`, nil},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`, `{"a":{"c":null}}`, nil},
		{`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":null}}`, nil},
		{`{"a":1}`, `{"a":{}}`, `{"a":{}}`, nil},
		{`{"a":[1,2]}`, `{"a":[1,3]}`, `{"a":[1,3]}`, nil},
		{`1`, `null`, `null`, nil},
		{`{"a":null,"b":1}`, `{"a":null,"b":2}`, `{"b":2}`, nil},
		{`{"a":1}`, `{"a":null}`, ``, patch.ErrNull},
		{`{"a":1}`, `{"a":{"b":{"c":null}}}`, ``, patch.ErrNull},
		{`1`, `{"a":null}`, ``, patch.ErrNull},
		{`{"a":1`, `{"a":2}`, ``, patch.ErrSyntax},
		{`{"a":1}`, `{"a"`, ``, patch.ErrSyntax},
		{`{"a":1}`, `{a:1}`, ``, patch.ErrSyntax},
	} {
		got, err := patch.Diff([]byte("+"), []byte(c.before), []byte(c.after))
		if string(got) != "+"+c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s to %s: %s, want %s: %v", c.before, c.after, got, c.want, err)
		}
	}
}

// TestWorkIsLinear checks that what a compromised host can send ends with an error: a key twice, and objects deep within
// each other. Objects whose members are in another order on each level differ in time.
func TestWorkIsLinear(t *testing.T) {
	t.Parallel()
	nested := func(levels int, open, within, end string) []byte {
		return []byte(strings.Repeat(open, levels) + within + strings.Repeat(end, levels))
	}
	for _, c := range []struct {
		target, patch []byte
		want          error
	}{
		{[]byte(`{"a":1,"a":1}`), []byte(`{"a":2}`), patch.ErrSyntax},
		{nested(64, `{"a":`, `1`, `}`), nested(64, `{"a":`, `2`, `}`), nil},
		{nested(65, `{"a":`, `1`, `}`), nested(65, `{"a":`, `2`, `}`), patch.ErrDepth},
		{[]byte(`1`), nested(65, `{"a":`, `2`, `}`), patch.ErrDepth},
	} {
		if got, err := patch.Merge(nil, c.target, c.patch); !errors.Is(err, c.want) || err == nil && !bytes.Equal(got, c.patch) {
			t.Errorf("%s with %s: %s, %v", c.target, c.patch, got, err)
		}
		if _, err := patch.Diff(nil, c.target, c.patch); c.want != patch.ErrSyntax && !errors.Is(err, c.want) { //nolint:errorlint // the sentinel of the table
			t.Errorf("%s to %s: %v", c.target, c.patch, err)
		}
	}
	got, err := patch.Diff(nil, nested(60, `{"a":`, `1`, `,"b":1,"c":1}`), nested(60, `{"a":`, `2`, `,"c":1,"b":1}`))
	if want := nested(60, `{"a":`, `2`, `}`); !bytes.Equal(got, want) || err != nil {
		t.Errorf("%s, want %s: %v", got, want, err)
	}
}

// values are JSON values with few keys, so that two of them are often alike in part.
func values(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth == 0 {
			kind = min(kind, 3)
		}
		switch kind {
		case 0:
			return nil
		case 1:
			return rapid.SampledFrom([]any{true, 1.5, -3.0}).Draw(t, "plain")
		case 2, 3:
			return rapid.SampledFrom([]string{"", "x", "}", `\"`, "ä\u2028<"}).Draw(t, "text")
		case 4:
			return rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "list")
		default:
			most := rapid.SampledFrom([]int{4, 30}).Draw(t, "most")
			return rapid.MapOfN(rapid.StringMatching(`[a-f"{]{1,2}`), values(depth-1), 0, most).Draw(t, "object")
		}
	})
}

// TestDiffAndMerge checks that a value with its patch is the next value, and that only null has no patch.
func TestDiffAndMerge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before, errBefore := json.Marshal(values(3).Draw(t, "before"))
		after, errAfter := json.Marshal(values(3).Draw(t, "after"))
		if err := errors.Join(errBefore, errAfter); err != nil {
			t.Fatal(err)
		}
		there(t, before, after)
	})
}

// there checks one way from a value to another.
func there(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, before, after []byte,
) {
	t.Helper()
	change, err := patch.Diff(nil, before, after)
	if errors.Is(err, patch.ErrNull) && bytes.Contains(after, []byte("null")) {
		return
	}
	if err != nil {
		t.Fatalf("%s to %s: %v", before, after, err)
	}
	if len(change) == 0 {
		change = []byte("{}")
		if string(before) != string(after) {
			t.Fatalf("%s to %s: no patch", before, after)
		}
		if before[0] != '{' {
			return
		}
	}
	got, err := patch.Merge(nil, before, change)
	if diff := cmp.Diff(decoded(after), decoded(got)); diff != "" || err != nil {
		t.Fatalf("%s to %s by %s: %s, %v", before, after, change, got, err)
	}
}

func decoded(text []byte) (value any) {
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return value
}

// reference is MergePatch of RFC 7396, section 2, over decoded values.
func reference(target, change any) any {
	members, is := change.(map[string]any)
	if !is {
		return change
	}
	next := map[string]any{}
	if old, is := target.(map[string]any); is {
		maps.Copy(next, old)
	}
	for key, value := range members {
		if value == nil {
			delete(next, key)
		} else {
			next[key] = reference(next[key], value)
		}
	}
	return next
}

// FuzzMerge compares Merge with the reference, and goes from each value to the other. Bytes that are not JSON end with an
// error or with some bytes, and never with a panic.
func FuzzMerge(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`},
		{`{"a":[{"b":"\"}"}]}`, `{"a":[1]}`},
		{`{"a":1`, `{"a":}`},
		{`{"a"`, `{,}`},
		{`[]`, `{"\u0061":1,"a":null}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, target, change []byte) {
		_, _ = patch.Diff(nil, target, change)
		_, _ = patch.Merge(nil, target, change)
		_ = patch.Members(target, func(_, _ []byte) error { return nil })
		_ = patch.Elements(target, func([]byte) error { return nil })
		var values [2]any
		if json.Unmarshal(target, &values[0]) != nil || json.Unmarshal(change, &values[1]) != nil {
			return
		}
		target, err := json.Marshal(values[0]) // from one encoder, and no key twice
		change, failed := json.Marshal(values[1])
		if errors.Join(err, failed) != nil {
			t.Skip("a number that encoding/json does not write")
		}
		got, err := patch.Merge(nil, target, change)
		if want := reference(values[0], values[1]); err != nil || !reflect.DeepEqual(decoded(got), want) {
			t.Fatalf("%s with %s: %s, want %v: %v", target, change, got, want, err)
		}
		there(t, target, change)
		there(t, change, target)
	})
}

// TestMembers checks the keys of an object, with and without escapes.
func TestMembers(t *testing.T) {
	t.Parallel()
	got := ""
	err := patch.Members([]byte(`{"a":1,"\u0062\"":[{}]}`), func(key, value []byte) error {
		got += string(key) + "=" + string(value) + ";"
		return nil
	})
	if want := `a=1;b"=[{}];`; got != want || err != nil {
		t.Errorf("%s, want %s: %v", got, want, err)
	}
	many := `{"a":1`
	for i := range 40 {
		many += fmt.Sprintf(`,"k%d":1`, i)
	}
	if err := patch.Members([]byte(many+`}`), func(_, _ []byte) error { return nil }); err != nil {
		t.Error(err)
	}
	for _, text := range []string{``, `[]`, `{`, `{"a"}`, `{"\q":1}`, `{"a":1,"\u0061":1}`, many + `,"a":1}`, many + `,"k39":1}`} {
		if err := patch.Members([]byte(text), func(_, _ []byte) error { return nil }); !errors.Is(err, patch.ErrSyntax) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestElements checks the elements of a list.
func TestElements(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{`[]`: ``, `[1]`: `1;`, ` [ {"a":[1,"]"]} , "x,y",null ] `: `{"a":[1,"]"]};"x,y";null;`} {
		got := ""
		err := patch.Elements([]byte(list), func(element []byte) error {
			got += string(element) + ";"
			return nil
		})
		if got != want || err != nil {
			t.Errorf("%s: %s, want %s: %v", list, got, want, err)
		}
	}
	for _, text := range []string{``, `{}`, `[`, `[1`, `[1 2]`} {
		if err := patch.Elements([]byte(text), func([]byte) error { return nil }); !errors.Is(err, patch.ErrSyntax) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// BenchmarkDiff compares two quotas of which one number changed.
func BenchmarkDiff(b *testing.B) {
	before := []byte(`{"name":"shop/web-1/app","status":{"name":"shop/web-1/app","group":"kubepods.slice/kubepods-pod1.slice","state":"Active","since":"2026-11-30T12:00:00Z"},"quota":{"limitCPUs":2,"nowCPUs":3,"creditCPUSeconds":1,"capacityCPUSeconds":120,"periods":0}}`)
	after := bytes.Replace(before, []byte(`Seconds":1,`), []byte(`Seconds":2,`), 1)
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		var err error
		if out, err = patch.Diff(out[:0], before, after); err != nil {
			b.Fatal(err)
		}
	}
}
