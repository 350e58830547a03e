package planner

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/templates"
)

// planManager chooses the cloud-controller-manager's release, and finds where it and an API server are too far apart:
// it must not be newer than any, nor more than one minor older (https://kubernetes.io/releases/version-skew-policy/).
func (p *planner) planManager() {
	c := p.Record.Configuration
	p.plan.Manager = ManagerPlan{Mode: string(c.Mode), Now: c.ControllerManager.Image, Rule: p.Profile.Image.Rule}
	m := &p.plan.Manager
	if c.Mode == config.ModeManual {
		m.Rule = "mode Manual: its release is yours to choose"
		return
	}
	then, err := p.imageThen(m.Now)
	if err != nil {
		f := finding.NoRelease.New("", err.Error())
		f.Next = "stay with 1." + fmt.Sprint(p.cluster.Minor()) + " until there is one; or with one that you have tried: " +
			"ccmadm upgrade plan v" + p.target.String() + " --image IMAGE"
		p.add(f)
		return
	}
	m.Then, m.By = then, state.ImageByProfile
	if p.Image != "" || then == m.Now && ImageBy(p.Profile, p.Record) == state.ImageByUser {
		m.By = state.ImageByUser
	}
	now, known := serves(p.Profile, m.Now)
	if !known {
		return
	}
	m.Serves = now.String()
	for _, n := range p.Nodes {
		if c.Mode == config.ModeStaticPod && n.Manager == "" {
			continue // none runs there, and what the record says is not yet its own
		}
		api, running := parsed(n.APIServer), now
		if r, ok := serves(p.Profile, n.Manager); ok {
			running = r
		}
		if api != nil && api.Minor() < running.from {
			p.add(finding.ManagerSkew.New("Node/"+n.Name, fmt.Sprintf(
				"the cloud-controller-manager is for Kubernetes %s, newer than the API server, v%s", running, api)))
		}
	}
	if now.to+1 < p.target.Minor() {
		f := finding.ManagerSkew.New("", fmt.Sprintf(
			"the cloud-controller-manager is for Kubernetes %s, more than one minor behind v%s", now, p.target))
		f.Next = fmt.Sprintf("bring it to its release for 1.%d first: ccmadm apply -f FILE with controllerManager.image",
			p.oldest.Minor())
		p.add(f)
	}
}

// imageThen is what the user names; else the profile's release for the target, where the profile chose the present one,
// too; else the present one, which somebody has chosen.
func (p *planner) imageThen(now string) (string, error) {
	if p.Image != "" {
		return p.Image, nil
	}
	v := templates.Values{
		Version: p.Version, KubernetesVersion: "v" + p.target.String(), ImageRepository: p.Record.ImageRepository,
	}
	then, err := p.Profile.ImageRef(v)
	m, known := serves(p.Profile, now)
	if now == "" || ImageBy(p.Profile, p.Record) != state.ImageByUser {
		return then, err
	}
	if known && m.from <= p.target.Minor() && p.target.Minor() <= m.to {
		return now, nil // it is for the target: so is what the user named for another control plane
	}
	if !known {
		f := finding.OwnImage.New(now, "this image was chosen by an administrator, and it is kept: whether it is for Kubernetes 1."+
			fmt.Sprint(p.target.Minor())+" is not known")
		f.Next = "ccmadm upgrade plan v" + p.target.String() + " --image IMAGE plans with another"
		p.add(f)
		return now, nil
	}
	return then, err
}

// AgentGoesAlong tells whether an upgrade that brings the manager to an image brings the node agent of that release:
// the profile has chosen both that the record has, and they are of one.
func AgentGoesAlong(p *templates.Profile, rec *state.Record, then string) bool {
	now, agent := rec.Configuration.ControllerManager.Image, rec.Configuration.NodeAgent.Image
	moves := then != "" && then != now && ImageBy(p, rec) == state.ImageByProfile
	if !moves || p.NodeAgent == nil || agent == "" {
		return false
	}
	_, tag := split(now)
	was, err := p.NodeAgentImage(templates.Values{
		Version: tag, KubernetesVersion: rec.KubernetesVersion, ImageRepository: rec.ImageRepository,
	})
	return err == nil && was == agent
}

// ImageBy is who has chosen the manager's image of a record. One of before that was written down tells it by the ccmadm
// that wrote it: whether its profile has that image.
func ImageBy(p *templates.Profile, rec *state.Record) state.ImageBy {
	if rec.ImageBy != "" {
		return rec.ImageBy
	}
	before := templates.Values{
		Version: rec.WrittenBy, KubernetesVersion: rec.KubernetesVersion, ImageRepository: rec.ImageRepository,
	}
	if was, err := p.ImageRef(before); err == nil && was == rec.Configuration.ControllerManager.Image {
		return state.ImageByProfile
	}
	return state.ImageByUser
}

// Knows tells whether the profile's table says what an image is for.
func Knows(p *templates.Profile, image string) bool {
	_, known := serves(p, image)
	return known
}

// Newer tells whether an image is for newer versions of Kubernetes than an API server's, and for which. What the
// profile's table does not know is for none.
func Newer(p *templates.Profile, image string, api *version.Version) (string, bool) {
	m, known := serves(p, image)
	return m.String(), known && api.Minor() < m.from
}

// servedMinors are the versions of Kubernetes that a release is for, 1.from to 1.to.
type servedMinors struct{ from, to uint }

func (m servedMinors) String() string {
	if m.from == m.to {
		return fmt.Sprintf("1.%d", m.from)
	}
	return fmt.Sprintf("1.%d to 1.%d", m.from, m.to)
}

// serves tells what an image is for, by the profile's table. A release that is not in the table counts where releases
// are called as the Kubernetes that they are for.
func serves(p *templates.Profile, image string) (m servedMinors, known bool) {
	name, tag := split(image)
	if name != base(p.Image.Repository) {
		return servedMinors{}, false
	}
	alike := len(p.Image.Tags) > 0
	for minor, release := range p.Image.Tags {
		n := version.MustParseGeneric(minor).Minor()
		if release == tag && (!known || n < m.from) {
			m.from = n
		}
		if release == tag {
			m.to, known = max(m.to, n), true
		}
		alike = alike && strings.HasPrefix(strings.TrimPrefix(release, "v"), minor+".")
	}
	if v := parsed(tag); !known && alike && v != nil {
		return servedMinors{v.Minor(), v.Minor()}, true
	}
	return m, known
}

// split is the last part of an image's name, which mirrors keep, and its tag.
func split(image string) (name, tag string) {
	name, _, _ = strings.Cut(base(image), "@")
	name, tag, _ = strings.Cut(name, ":")
	return name, tag
}

func base(image string) string { return image[strings.LastIndex(image, "/")+1:] }
