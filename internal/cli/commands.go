package cli

import (
	"github.com/spf13/cobra"
)

// commands lists the commands of berth in the order of the help.
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

// clusterCommands are the commands of the kubectl plugin. Five of them read the cluster where berth reads the host.
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

// hostCommands are the commands that work only on the host that runs them.
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

// hidden hides commands from the help; they still work.
func hidden(all []*cobra.Command) []*cobra.Command {
	for _, cmd := range all {
		cmd.Hidden = true
	}
	return all
}
