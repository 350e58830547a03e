package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/phases/workflow"
)

// commandGroup is a heading in `ccmadm --help`, and the commands below it.
type commandGroup struct {
	id, title string
	commands  []*cobra.Command
}

func commandGroups(s workflow.Streams) []commandGroup {
	return []commandGroup{
		{"bootstrap", "Create and join clusters:", []*cobra.Command{newInit(s), newJoin(s), newReset(s)}},
		{"change", "Change existing clusters:", []*cobra.Command{
			newApply(s), newDiff(s), newAdopt(s), newLeave(s), newUpgrade(s), newJournal(s), newRollback(s), newNode(s), newCerts(s),
		}},
		{"faults", "Find faults:", []*cobra.Command{
			newStatus(s), newWait(s), newDoctor(s), newWhy(s), newLint(s), newSupportBundle(s),
		}},
		{"traffic", "Load balancers and routes:", []*cobra.Command{newLB(s), newRoutes(s)}},
		{"providers", "Providers, machines and configuration:", []*cobra.Command{
			newProvider(s), newRehearse(s), newRender(s), newImages(s), newMachines(s), newConfig(s),
		}},
		{"other", "Other commands:", []*cobra.Command{newVersion(s)}},
	}
}

// addCommands adds the commands in their groups. Cobra's own commands are in the last group.
func addCommands(root *cobra.Command, groups []commandGroup) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
		root.SetHelpCommandGroupID(g.id)
		root.SetCompletionCommandGroupID(g.id)
	}
}
