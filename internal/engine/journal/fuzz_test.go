package journal

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzReplay reads arbitrary files. The result must survive being written and read again, and appending to a file must
// never lose its content.
//
// With payloads, each line of the data gets a frame with the right checksum, because a fuzzer cannot guess checksums.
func FuzzReplay(f *testing.F) {
	header, _ := encode(headerRecord(boot))
	original, _ := encode(originalRecord(entry("a", "100000 100000")))
	intent := targetRecord(kindIntent, target("a"))
	intent.From, intent.Value = "100000 100000", "300000 100000"
	intended, _ := encode(intent)
	f.Add([]byte(nil), false)
	f.Add([]byte("\n"), false)
	f.Add(bytes.Join([][]byte{header, original, intended}, nil), false)
	f.Add(bytes.Join([][]byte{header, []byte("x\n"), original, intended[:20]}, nil), false)
	f.Add([]byte(`{"kind":"header","version":2,"boot":"b"}
{"kind":"original","driver":"cgroup","object":"a","knob":"cpu.max","value":"max 100000","writes":1}
{"kind":"intent","driver":"cgroup","object":"a","knob":"cpu.max","from":"max 100000","value":"1000 100000"}
{"kind":"rebase","driver":"cgroup","object":"a","knob":"cpu.max","value":"5000 100000"}`), true)
	f.Add([]byte(`{"kind":"header","version":2,"boot":"b"}
{"kind":"original","driver":"file","object":"/proc/sys/vm","knob":"stat_interval","value":"1","id":"x","lifetime":"persistent","writes":1}
{"kind":"intent","driver":"file","object":"/proc/sys/vm","knob":"stat_interval","from":"1","value":"2"}`), true)
	f.Fuzz(func(t *testing.T, data []byte, payloads bool) {
		if payloads {
			data = framed(data)
		}
		s, err := replay("journal", data, nil)
		if err != nil {
			return
		}
		if s.sound > int64(len(data)) {
			t.Fatalf("%d good bytes of %d", s.sound, len(data))
		}
		rewritten := bytes.Clone(header)
		for _, e := range s.Entries {
			if err := e.check(); err != nil {
				t.Fatalf("entry %+v: %v", e, err)
			}
			line, err := encode(originalRecord(e))
			if err != nil {
				t.Fatal(err)
			}
			rewritten = append(rewritten, line...)
		}
		again, err := replay("journal", rewritten, nil)
		if err != nil || again.Damage != nil || again.Torn {
			t.Fatalf("rewritten: %v, %v, torn %v", err, again.Damage, again.Torn)
		}
		if d := cmp.Diff(s.Entries, again.Entries); d != "" {
			t.Fatalf("(-read +rewritten):\n%s", d)
		}
	})
}

func framed(data []byte) []byte {
	var lines []byte
	for payload := range bytes.SplitSeq(data, []byte("\n")) {
		lines = fmt.Appendf(lines, "%s%08x%s%s%s\n", frameCRC, checksum(payload), frameRec, payload, frameEnd)
	}
	return lines
}
