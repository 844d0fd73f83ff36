package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// writeSummary leaves the report beside the raw samples.
func (o BurstOptions) writeSummary(r *Report) error {
	if o.Out == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.Out, "summary.json"), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	return nil
}
