package cli

import (
	"github.com/spf13/cobra"
)

// commands lists what berth can do, in the order that help shows it.
func commands(g *globals) []*cobra.Command {
	if g.program.plugin() {
		return append(clusterCommands(g), hidden(hostCommands(g))...)
	}
	return append([]*cobra.Command{
		newTopologyCommand(g),
		newPlaceCommand(g),
		newSimulateCommand(g),
		newRepackCommand(g),
		newStatusCommand(g),
		newExplainCommand(g),
		newVersionCommand(g),
		newRollbackCommand(g),
		newWebCommand(),
		newTopCommand(g),
	}, hostCommands(g)...)
}

// clusterCommands are those of the plugin of kubectl. Five of them ask the cluster for what
// they ask of the host elsewhere.
func clusterCommands(g *globals) []*cobra.Command {
	return []*cobra.Command{
		newNodeMachineCommand(g),
		newPlaceCommand(g),
		newSimulateCommand(g),
		newRepackCommand(g),
		newNodesCommand(g),
		newExplainCommand(g),
		newClusterRollbackCommand(g),
		newVersionCommand(g),
		newClusterWebCommand(),
		newClusterTopCommand(g),
	}
}

// hostCommands work on the host that they run on, and on nothing else.
func hostCommands(g *globals) []*cobra.Command {
	return []*cobra.Command{
		newTuneCommand(g),
		newRunCommand(g),
		newAgentCommand(g),
		newServiceCommand(g),
		newMemoryCommand(g),
		newDoctorCommand(g),
		newDemoCommand(g),
		newBenchCommand(g),
		newLoadCommand(),
	}
}

// hidden leaves commands out of the help; they work all the same.
func hidden(all []*cobra.Command) []*cobra.Command {
	for _, cmd := range all {
		cmd.Hidden = true
	}
	return all
}
