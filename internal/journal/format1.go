package journal

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/berth-project/berth/internal/plan"
)

// The drivers of format 1, which knew files of control groups only. systemd wrote the targets with a unit; the last
// element of the group's path names the unit.
const (
	format1File plan.Driver = "cgroup"
	format1Unit plan.Driver = "systemd"
)

// format1 has the fields of a record that only format 1 has. Open reads and rewrites a file of that format. Where there
// is no room for the rewrite, the file continues with records of both formats.
type format1 struct {
	Group string `json:"group,omitempty"`
	Unit  string `json:"unit,omitempty"`
}

// modernize converts a record of format 1 to the current format.
func (r *record) modernize() {
	if r.Group == "" {
		return
	}
	r.Driver, r.Object = format1File, r.Group
	if r.Unit != "" {
		r.Driver = format1Unit
	}
	r.format1 = format1{}
}

// identity is a plan.Identity, which format 1 wrote as device and inode.
type identity plan.Identity

// UnmarshalJSON reads a string, or the object of format 1.
func (i *identity) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		if err := json.Unmarshal(data, (*string)(i)); err != nil {
			return fmt.Errorf("identity: %w", err)
		}
		return nil
	}
	var inode struct{ Dev, Ino uint64 }
	if err := json.Unmarshal(data, &inode); err != nil {
		return fmt.Errorf("identity of format 1: %w", err)
	}
	*i = identity(fmt.Sprintf("%d:%d", inode.Dev, inode.Ino))
	return nil
}
