package capability

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Name string `json:"name"`
}

type outer struct {
	inner
	Count int    `json:"count,omitempty"`
	Text  string `json:"text"`
}

func TestJoined(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		parts Joined
		want  string
		err   error
	}{
		"nothing":            {Joined{}, `{}`, nil},
		"only empty parts":   {Joined{Sections(nil), Sections{}, struct{}{}}, `{}`, nil},
		"parts in order":     {Joined{outer{Text: "b"}, Sections{}, Sections{"a": 1}}, `{"name":"","text":"b","a":1}`, nil},
		"empty part first":   {Joined{Sections{}, Sections{"a": 1}}, `{"a":1}`, nil},
		"raw section":        {Joined{Sections{"a": json.RawMessage(`{"b": [1]}`)}}, `{"a":{"b":[1]}}`, nil},
		"marshalled part":    {Joined{Sections{"a": 1}, json.RawMessage(`{"b":[2]}`), struct{}{}}, `{"a":1,"b":[2]}`, nil},
		"a list":             {Joined{[]int{1}}, "", ErrNoObject},
		"nothing to marshal": {Joined{Sections{"a": make(chan int)}}, "", errMarshal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(tt.parts)
			if tt.err != nil {
				var unsupported *json.UnsupportedTypeError
				if !errors.Is(err, tt.err) && !errors.As(err, &unsupported) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				return
			}
			if err != nil || string(got) != tt.want {
				t.Errorf("%s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// errMarshal stands for an error of encoding/json.
var errMarshal = errors.New("cannot be marshalled")

func TestSplitReturnsWhatIsNoField(t *testing.T) {
	t.Parallel()
	var o outer
	rest, err := Split([]byte(`{"name":"n","count":2,"text":"t","more":{"x":1},"null":null}`), &o)
	if err != nil {
		t.Fatal(err)
	}
	if want := (outer{inner{"n"}, 2, "t"}); o != want {
		t.Errorf("fields %+v, want %+v", o, want)
	}
	text, err := json.Marshal(Joined{o, rest})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"n","count":2,"text":"t","more":{"x":1},"null":null}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("joined again (-want +got):\n%s", diff)
	}
	for _, broken := range []string{``, `[]`, `{"count":"two"}`, `{"name":1}`} {
		if _, err := Split([]byte(broken), &o); err == nil {
			t.Errorf("%s is taken for an object", broken)
		}
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	s := Sections{"read": json.RawMessage(`{"name":"r"}`), "made": inner{"m"}, "odd": 3, "channel": make(chan int)}
	for key, want := range map[string]string{"read": "r", "made": "m", "absent": "as before"} {
		into := inner{"as before"}
		if err := s.Decode(key, &into); err != nil || into.Name != want {
			t.Errorf("section %s: %q, %v; want %q", key, into.Name, err, want)
		}
	}
	for _, key := range []string{"odd", "channel"} {
		if err := s.Decode(key, &inner{}); err == nil {
			t.Errorf("section %s is decoded", key)
		}
	}
	if err := s.Add(Sections{"odd": 4, "new": 5}); !errors.Is(err, ErrTwice) {
		t.Errorf("a key that is there: %v", err)
	}
	if s["odd"] != 3 || s["new"] != 5 {
		t.Errorf("after adding: %v, %v", s["odd"], s["new"])
	}
}

// What a workload needs of the node is decoded once for all of them: on a full node a list of
// all containers would otherwise be decoded for each of them.
func TestOfNodeDecodesOnce(t *testing.T) {
	r := Reported{Node: Sections{"list": json.RawMessage(`[1,2]`), "bad": json.RawMessage(`"x"`)}, Decoded: map[string]any{}}
	first, err := OfNode[*[]int](r, "list")
	if err != nil || len(*first) != 2 {
		t.Fatalf("%v, %v", first, err)
	}
	if second, err := OfNode[*[]int](r, "list"); err != nil || second != first {
		t.Errorf("decoded again: %p and %p, %v", first, second, err)
	}
	if _, err := OfNode[*[]int](r, "bad"); err == nil {
		t.Error("no error")
	}
	if none, err := OfNode[*[]int](Reported{}, "list"); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}
