package chance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawEnv makes TestDraw print the values that it draws. TestSeedRepeats sets it for child processes.
const drawEnv = "BERTH_TEST_DRAW"

func TestDraw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z]{9}`).Draw(t, "text")
		if len(text) != 9 {
			t.Fatalf("drew %q", text)
		}
		if os.Getenv(drawEnv) != "" {
			fmt.Println("drew", text)
		}
	})
}

func TestSeedRepeats(t *testing.T) {
	draw := func(seed string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDraw$") //nolint:gosec // this test's own binary
		cmd.Env = append(os.Environ(), drawEnv+"=1", "BERTH_SEED="+seed)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var drawn []string
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "drew ") {
				drawn = append(drawn, line)
			}
		}
		if len(drawn) < 10 {
			t.Fatalf("it draws %q", out)
		}
		return strings.Join(drawn, "")
	}
	for _, test := range []struct {
		first, second string
		same          bool
	}{{"", "", true}, {"7", "7", true}, {"7", "8", false}, {"random", "random", false}} {
		if same := draw(test.first) == draw(test.second); same != test.same {
			t.Errorf("processes with BERTH_SEED=%q and %q draw the same: %v", test.first, test.second, same)
		}
	}
}

func TestParse(t *testing.T) {
	now := time.Unix(3, 5)
	for text, want := range map[string]uint64{"": usual, "17": 17, "random": 3_000_000_005} {
		if got, err := parse(text, now); got != want || err != nil {
			t.Errorf("parse(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "x", "1 "} {
		if _, err := parse(text, now); !errors.Is(err, errSeed) {
			t.Errorf("parse(%q): %v, want %v", text, err, errSeed)
		}
	}
}
