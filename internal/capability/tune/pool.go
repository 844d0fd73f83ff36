package tune

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/table"
)

const (
	sparedShare = 20 // 1/sparedShare of the host's memory stays available: 5 per cent
	sparedLeast = 512 << 20
)

// noRoom returns why the host has no memory for a number of huge pages, "" if it has, or if that is unknown. The kernel
// reclaims until it has the pages: it would kill other programs for lack of memory, and no undo restores them
// (alloc_pool_huge_folio in mm/hugetlb.c).
func noRoom(s Setting, m knob.Memory) string {
	if !knob.IsPool(s.File) || m.Page <= 0 || m.Total <= 0 {
		return ""
	}
	now, errNow := strconv.ParseInt(s.Now, 10, 64)
	want, errWant := strconv.ParseInt(s.Want, 10, 64)
	spared := max(m.Total/sparedShare, sparedLeast)
	room := max(m.Available-spared, 0)
	if errNow != nil || errWant != nil || want <= now || want-now <= room/m.Page {
		return ""
	}
	return fmt.Sprintf("%d more pages of %s each, where the host has room for %d: %s is available, of which %s is spared",
		want-now, table.Bytes(m.Page), room/m.Page, table.Bytes(m.Available), table.Bytes(spared))
}

// noOriginal returns why an empty sysctl cannot be set, "" if it is not empty. An empty write changes nothing, so no
// undo could empty the sysctl again (proc_do_large_bitmap in kernel/sysctl.c).
func noOriginal(s Setting) string {
	if s.Now != "" || !strings.HasPrefix(s.Knob, knob.Prefix) {
		return ""
	}
	return "it is empty now, which no undo can put back: set it in /etc/sysctl.d instead"
}
