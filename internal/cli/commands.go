package cli

import "github.com/spf13/cobra"

// commands lists what berth can do, in the order that help shows it.
func commands(_ *globals) []*cobra.Command {
	return []*cobra.Command{}
}
