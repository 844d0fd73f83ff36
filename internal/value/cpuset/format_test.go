package cpuset_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func TestParse(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"\n", ""},
		{"\x00\x00", ""},
		{"0", "0"},
		{"0-3,8", "0-3,8"},
		{"0-3,8\n", "0-3,8"},
		{"0-3,8\n\x00\x00", "0-3,8"},
		{"8,1,0,1", "0-1,8"},
		{"7-7", "7"},
		{"0-3,4-7", "0-7"},
		{"63-64,127-128,1023", "63-64,127-128,1023"},
		{"0-1023", "0-1023"},
		{"007", "7"},
		{"0-31:2/4", "0-1,4-5,8-9,12-13,16-17,20-21,24-25,28-29"},
		{"0-8:1/4", "0,4,8"},
		{"1-9:3/4,20", "1-3,5-7,9,20"},
		{"0-9:1024/1024", "0-9"},
		{"0-9:4/4", "0-9"},
	} {
		s, err := cpuset.Parse(test.in)
		if err != nil || s.String() != test.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", test.in, s, err, test.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, test := range []struct {
		in     string
		offset int
		want   string // part of what was expected
	}{
		{",", 0, "a CPU id, 0 to 1023"},
		{" 1", 0, "a CPU id"},
		{"1,", 2, "a CPU id"},
		{"1 ,2", 1, "','"},
		{"0-3 8", 3, "','"},
		{"a", 0, "a CPU id"},
		{"-1", 0, "a CPU id"},
		{"+1", 0, "a CPU id"},
		{"0-", 2, "the last CPU"},
		{"0-3-5", 3, "','"},
		{"5-3", 2, "5 to 1023"},
		{"1024", 0, "0 to 1023"},
		{"9999999999999999999999999", 0, "0 to 1023"},
		{"0-1024", 2, "0 to 1023"},
		{"0,\x00,1", 2, "a CPU id"},
		{"0\n1", 1, "','"},
		{"3:1/2", 1, "','"},
		{"0-3:", 4, "used part"},
		{"0-3:0/2", 4, "1 to"},
		{"0-3:2", 5, "'/'"},
		{"0-3:2/", 6, "size of a group"},
		{"0-3:2/1", 6, "2 to"},
		{"0-3:2/0", 6, "2 to"},
		{"0-3:1025/1025", 4, "1 to 1024"},
		{"0-3:1/2/3", 7, "','"},
		{"\u0660", 0, "a CPU id"},
	} {
		_, err := cpuset.Parse(test.in)
		checkSyntax(t, test.in, err, test.offset, test.want)
	}
}

func TestParseMask(t *testing.T) {
	for _, test := range []struct{ in, list, mask string }{
		{"", "", "0"},
		{"0\n", "", "0"},
		{"00000000,00000000\x00", "", "0"},
		{"f", "0-3", "f"},
		{"FF,00000000,ffffffff", "0-31,64-71", "ff,00000000,ffffffff"},
		{"1,1", "0,32", "1,00000001"},
		{"80000000", "31", "80000000"},
		{"1,80000000", "31-32", "1,80000000"},
		{strings.Repeat("00000000,", 250) + "3\n", "0-1", "3"},
		{strings.Repeat("ffffffff,", 31) + "ffffffff", "0-1023", strings.Repeat("ffffffff,", 31) + "ffffffff"},
	} {
		s, err := cpuset.ParseMask(test.in)
		if err != nil || s.String() != test.list || s.Mask() != test.mask {
			t.Errorf("ParseMask(%q) = %q, mask %q, %v; want %q, %q", test.in, s, s.Mask(), err, test.list, test.mask)
		}
	}
}

func TestParseMaskRefuses(t *testing.T) {
	for _, test := range []struct {
		in     string
		offset int
		want   string
	}{
		{",", 0, "1 to 8 hexadecimal"},
		{"f,", 2, "1 to 8 hexadecimal"},
		{"0xff", 1, "hexadecimal digit, ','"},
		{"fffffffff", 8, "',' after 8"},
		{"f,fffffffff", 10, "',' after 8"},
		{"g", 0, "hexadecimal"},
		{" f", 0, "hexadecimal"},
		{"f ", 1, "hexadecimal digit, ','"},
		{"0-3", 1, "hexadecimal digit, ','"},
		{"1," + strings.Repeat("00000000,", 31) + "0", 0, "0 for CPUs above 1023"},
	} {
		_, err := cpuset.ParseMask(test.in)
		checkSyntax(t, test.in, err, test.offset, test.want)
	}
}

func checkSyntax(t *testing.T, in string, err error, offset int, want string) {
	t.Helper()
	var syntax *cpuset.SyntaxError
	if !errors.As(err, &syntax) {
		t.Errorf("%q: got %v, want a SyntaxError", in, err)
		return
	}
	if syntax.Input != in || syntax.Offset != offset || !strings.Contains(syntax.Want, want) {
		t.Errorf("%q: got %+v; want offset %d and %q", in, syntax, offset, want)
	}
}

func TestSyntaxErrorMessage(t *testing.T) {
	_, err := cpuset.Parse("0-3,x")
	if want := `CPU list "0-3,x": byte 4: want a CPU id, 0 to 1023`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = cpuset.Parse(strings.Repeat("x", 10_000))
	if err == nil || len(err.Error()) > 200 || !strings.Contains(err.Error(), "10000 bytes") {
		t.Errorf("a long input: %v", err)
	}
}

func TestFormatsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := draw(t, "set")
		if got, err := cpuset.Parse(s.String()); err != nil || got != s {
			t.Fatalf("list %q: %q, %v", s.String(), got, err)
		}
		if got, err := cpuset.ParseMask(s.Mask()); err != nil || got != s {
			t.Fatalf("mask %q: %q, %v", s.Mask(), got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0-3,8\n", "0-31:2/4", "5-3", "1024", "0,,1", "0-3:1/0", "9-9:1/1\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) { checkRoundTrip(t, in, cpuset.Parse) })
}

func FuzzParseMask(f *testing.F) {
	for _, seed := range []string{"", "ff,00000000,ffffffff\n", "1,1", "g", "fffffffff", "0x1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) { checkRoundTrip(t, in, cpuset.ParseMask) })
}

// checkRoundTrip holds for every input: refused with a position inside it, or
// a set that both formats give back.
func checkRoundTrip(t *testing.T, in string, parse func(string) (cpuset.Set, error)) {
	s, err := parse(in)
	if err != nil {
		var syntax *cpuset.SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(in) || syntax.Want == "" {
			t.Fatalf("%q: %#v is no complete SyntaxError", in, err)
		}
		if s != (cpuset.Set{}) {
			t.Fatalf("%q: a set besides the error", in)
		}
		return
	}
	if again, err := cpuset.Parse(s.String()); err != nil || again != s {
		t.Fatalf("%q: list %q gives %q, %v", in, s.String(), again, err)
	}
	if again, err := cpuset.ParseMask(s.Mask()); err != nil || again != s {
		t.Fatalf("%q: mask %q gives %q, %v", in, s.Mask(), again, err)
	}
}
