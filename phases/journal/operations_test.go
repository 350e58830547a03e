package journal

import "testing"

// Journals hold each of these commands, and those of other releases hold further ones.
func TestOperationOf(t *testing.T) {
	upgrade := Operation{Command: CommandUpgrade, FailedIsUnfinished: true, Subject: KubernetesVersion}
	upgradeApply, upgradeNode, workers := upgrade, upgrade, upgrade
	upgradeApply.Command, upgradeApply.Resumes = "upgrade apply", true
	upgradeNode.Command, upgradeNode.Resumes = "upgrade node", true
	workers.Command, workers.KeepsSettings = "upgrade workers", true
	adopt := Operation{Command: "adopt", Resumes: true, FailedIsUnfinished: true, OwnWayBack: true}
	leave := adopt
	leave.Command = "leave"
	for command, want := range map[string]Operation{
		"init":                    {Command: "init", Resumes: true, KeepsSettings: true},
		"apply":                   {Command: "apply", Resumes: true},
		"adopt":                   adopt,
		"adopt (rollback 3)":      adopt,
		"leave":                   leave,
		"leave (rollback 12)":     leave,
		"rollback 3":              {Command: "rollback"},
		"upgrade apply v1.36.3":   upgradeApply,
		"upgrade node v1.36.3":    upgradeNode,
		"upgrade workers v1.36.3": workers,
		"upgrade nodes v1.36.3":   upgrade,
		"newer than this one":     {Command: "newer than this one"},
		"adopted":                 {Command: "adopted"},
		"":                        {},
	} {
		run := Run{Command: command}
		if got := run.Operation(); got != want {
			t.Errorf("%q: got %+v, want %+v", command, got, want)
		}
	}
}

func TestRun_RollsBack(t *testing.T) {
	for _, tt := range []struct {
		command string
		of      int
		is      bool
	}{
		{Rollback(12, ""), 12, true},
		{"rollback 12", 12, true},
		{Rollback(3, CommandLeave), 3, true},
		{"leave (rollback 3)", 3, true},
		{"leave", 0, false},
		{"apply", 0, false},
	} {
		run := Run{Command: tt.command}
		if of, is := run.RollsBack(); of != tt.of || is != tt.is {
			t.Errorf("%q: got %d, %t, want %d, %t", tt.command, of, is, tt.of, tt.is)
		}
	}
}
