package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// WriteSummary writes a report into the directory out, unless out is empty.
func WriteSummary(out string, report any) error {
	if out == "" {
		return nil
	}
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, "summary.json"), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	return nil
}
