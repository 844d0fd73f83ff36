package cli

import (
	"github.com/spf13/cobra"
)

// commands lists what berth can do, in the order that help shows it.
func commands(g *globals) []*cobra.Command {
	return []*cobra.Command{
		newTopologyCommand(g),
		newPlaceCommand(g),
		newSimulateCommand(g),
		newTuneCommand(g),
		newRunCommand(g),
		newAgentCommand(g),
		newStatusCommand(g),
		newExplainCommand(g),
		newMemoryCommand(g),
		newRollbackCommand(g),
		newDoctorCommand(g),
		newDemoCommand(g),
		newBenchCommand(g),
		newLoadCommand(),
	}
}
