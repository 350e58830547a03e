package journal

import (
	"fmt"
	"strconv"
	"strings"
)

// The commands, as the journal names them: in Run.Command a version, or the run that is rolled back, may follow.
const (
	CommandInit           = "init"
	CommandJoin           = "join"
	CommandApply          = "apply"
	CommandAdopt          = "adopt"
	CommandLeave          = "leave"
	CommandRollback       = "rollback"
	CommandUpgrade        = "upgrade"
	CommandUpgradeApply   = "upgrade apply"
	CommandUpgradeNode    = "upgrade node"
	CommandUpgradeWorkers = "upgrade workers" // a run of `upgrade apply --via` after that of its own machine
)

// Subject is what the runs of an operation change as a whole.
type Subject int

// The subjects. A run changes the settings of a cluster, unless its operation says otherwise.
const (
	ClusterSettings   Subject = iota
	KubernetesVersion         // on one machine
)

// Operation is what the journal's readers have to know of a command.
type Operation struct {
	// Command is its name, a constant of this package.
	Command string
	// Resumes says that the same command resumes after an interruption.
	Resumes bool
	// FailedIsUnfinished says that a failed run is as unfinished as an interrupted one: its steps stay done, and the same
	// command completes it. A failed run of another operation has told what failed, and its causes are the doctor's to find.
	FailedIsUnfinished bool
	// KeepsSettings says that its runs write no settings, however far they come: no other run has to wait for their end.
	KeepsSettings bool
	// Subject says which earlier runs a run makes up for when it is done: those of the same subject.
	Subject Subject
	// OwnWayBack says that the record of before is not enough to go back from its runs: they are rolled back by an operation.
	OwnWayBack bool
}

// Operations lists the commands of this release that a journal may name, and those that resume. The runs of any other command
// change settings, and are finished when they fail.
func Operations() []Operation {
	return []Operation{
		{Command: CommandInit, Resumes: true, KeepsSettings: true}, // of a cluster that is there it restores those of the record
		{Command: CommandJoin, Resumes: true},
		{Command: CommandApply, Resumes: true},
		{Command: CommandAdopt, Resumes: true, FailedIsUnfinished: true, OwnWayBack: true},
		{Command: CommandLeave, Resumes: true, FailedIsUnfinished: true, OwnWayBack: true},
		{Command: CommandRollback}, // rollback names the run in its own hint
		// Of another release, with another word behind it than the three below:
		{Command: CommandUpgrade, FailedIsUnfinished: true, Subject: KubernetesVersion},
		{Command: CommandUpgradeApply, Resumes: true, FailedIsUnfinished: true, Subject: KubernetesVersion},
		{Command: CommandUpgradeNode, Resumes: true, FailedIsUnfinished: true, Subject: KubernetesVersion},
		{Command: CommandUpgradeWorkers, FailedIsUnfinished: true, KeepsSettings: true, Subject: KubernetesVersion},
	}
}

// OperationOf returns the operation whose command is the longest that the text begins with, or one of that text alone.
func OperationOf(text string) Operation {
	found := Operation{}
	for _, o := range Operations() {
		if len(o.Command) > len(found.Command) && strings.HasPrefix(text+" ", o.Command+" ") {
			found = o
		}
	}
	if found.Command == "" {
		found.Command = text
	}
	return found
}

// Operation is that of the run's command.
func (r *Run) Operation() Operation { return OperationOf(r.Command) }

// Rollback is the command of a run that rolls another one back. By is the command of the operation that does it; empty: the
// record of before is applied.
func Rollback(of int, by string) string {
	command := fmt.Sprintf("%s %d", CommandRollback, of)
	if by == "" {
		return command
	}
	return by + " (" + command + ")"
}

// RollsBack tells whether a run is a rollback, and of which run.
func (r *Run) RollsBack() (of int, is bool) {
	_, text, is := strings.Cut(r.Command, CommandRollback+" ")
	of, _ = strconv.Atoi(strings.TrimSuffix(text, ")")) // no run has the number 0
	return of, is
}
