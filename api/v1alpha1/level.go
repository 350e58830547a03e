package v1alpha1

// Level says how an address gets its packets.
type Level string

// LevelAuto is BGP where a BGPPeer exists when the address is given, and L2 elsewhere. LevelNodeIP publishes the
// addresses of Nodes and needs neither pool nor agent. LevelL2 answers ARP and NDP on one Node at a time. LevelBGP
// announces a route from every eligible Node.
const (
	LevelAuto   Level = "Auto"
	LevelNodeIP Level = "NodeIP"
	LevelL2     Level = "L2"
	LevelBGP    Level = "BGP"
)

// levelTraits are what the manager, agents and the doctor treat differently between levels.
type levelTraits struct{ announced, elected, onLink, bySession bool }

// traits is the table of levels. One that is not in it announces nothing.
func (l Level) traits() levelTraits {
	switch l {
	case LevelL2:
		return levelTraits{announced: true, elected: true, onLink: true}
	case LevelBGP:
		return levelTraits{announced: true, bySession: true}
	}
	return levelTraits{}
}

// Announced says that node agents announce an address of this level, which is one of an AddressPool.
func (l Level) Announced() bool { return l.traits().announced }

// Elected says that one Node at a time has the address, by a vote of the agents. At other levels that are announced, every
// eligible Node has it.
func (l Level) Elected() bool { return l.traits().elected }

// OnLink says that machines on a link find the address by ARP or NDP: the link is probed before an address is used there, and a
// Node needs an interface with the link.
func (l Level) OnLink() bool { return l.traits().onLink }

// BySession says that a Node needs a session with a BGPPeer.
func (l Level) BySession() bool { return l.traits().bySession }
