package fleet

// Task is a step on the machine of a node. There it is a command of ccmadm; on this machine it is done in this process.
type Task interface {
	// command is that command, without the program's name.
	command() []string
}

// External puts the machine's kubelet into external mode: `ccmadm node external`.
type External struct {
	// NodeIP is the kubelet's address, or one of each family with a comma between.
	NodeIP string
}

func (t External) command() []string { return []string{"node", "external", "--node-ip=" + t.NodeIP} }

// Plain takes the machine's kubelet out of external mode: `ccmadm node plain`. What ccmadm has noted on another machine goes,
// too; on this one it is needed until the end of the run.
type Plain struct {
	// Purge takes away whatever is ccmadm's there.
	Purge bool
}

func (t Plain) command() []string {
	if t.Purge {
		return []string{"node", "plain", "--purge"}
	}
	return []string{"node", "plain", "--forget"}
}

// Command is done on other machines only.
type Command []string

func (t Command) command() []string { return t }
