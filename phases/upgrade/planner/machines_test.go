package planner

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fromHere has the machines asked; they are as told.
func fromHere(via string, told map[string]Told) func(*Facts) {
	return func(f *Facts) {
		f.Via, f.Told = via, map[string]Told{}
		for _, name := range []string{"cp1", "w1"} {
			t, given := told[name]
			if !given {
				t = Told{Asked: true, Kubeadm: "v1.36.3", Kubelet: "v1.35.4", Ccmadm: "test"}
			}
			if t.Release == "" {
				t.Release = "test"
			}
			f.Told[name] = t
		}
	}
}

func TestNew_Machines(t *testing.T) {
	for _, tt := range []row{
		{
			name: "all are ready", do: fromHere("pods", nil),
			says: "w1       worker         v1.36.3  v1.35.4  test    ccmadm upgrade node",
		},
		{
			name: "kubeadm of the former version",
			do: fromHere("ssh", map[string]Told{
				"w1": {Asked: true, Kubeadm: "v1.35.4", Kubelet: "v1.35.4", Ccmadm: "test", Packages: "apt-get"},
			}),
			want: []string{"error U13 Node/w1"},
			says: `next: sed -i -E 's#(/core:/stable:/)v[0-9.]+#\1v1.36#' /etc/apt/sources.list.d/* && apt-get update && ` +
				"apt-get install -y --allow-change-held-packages kubeadm='1.36.3-*'",
		},
		{
			name: "no kubeadm, and no packages",
			do: func(f *Facts) {
				f.Nodes[0].Architecture = "arm64"
				fromHere("pods", map[string]Told{"cp1": {Asked: true, Kubelet: "v1.35.4", Ccmadm: "test"}})(f)
			},
			want: []string{"error U13 Node/cp1"}, says: "/release/v1.36.3/bin/linux/arm64/kubeadm &&",
		},
		{
			name: "a kubelet that says to be of an architecture of its own",
			do: func(f *Facts) {
				f.Nodes[0].Architecture = "$(reboot)"
				fromHere("pods", map[string]Told{"cp1": {Asked: true, Kubelet: "v1.35.4", Ccmadm: "test"}})(f)
			},
			want: []string{"error U13 Node/cp1"}, says: "next: https://dl.k8s.io/release/v1.36.3 has kubeadm\n",
		},
		{
			name: "it does not answer",
			do:   fromHere("pods", map[string]Told{"w1": {Problem: "it is not Ready", Next: "ccmadm status"}}),
			want: []string{"error U13 Node/w1"}, says: "cannot: it is not Ready",
		},
		{
			name: "it does not answer, and is left out",
			do:   fromHere("pods", map[string]Told{"w1": {Skipped: true, Problem: "no"}}),
			says: "ccmadm upgrade node\n       kubectl drain w1", // by hand, then
		},
		{
			name: "a pod brings its own ccmadm",
			do:   fromHere("pods", map[string]Told{"cp1": {Asked: true, Kubeadm: "v1.36.3", Ccmadm: "v0.1.0"}}),
			want: []string{"warning U14 "}, says: "v0.1.0 on cp1; test on cp2",
		},
		{
			name: "a machine needs no ccmadm for that",
			do:   fromHere("pods", map[string]Told{"cp1": {Asked: true, Kubeadm: "v1.36.3"}}),
			says: "cp1      control plane  v1.36.3  -        -       ccmadm upgrade node",
		},
		{
			name: "an image that is older",
			do:   fromHere("pods", map[string]Told{"w1": {Asked: true, Kubeadm: "v1.36.3", Release: "v0.1.0"}}),
			want: []string{"error U13 Node/w1"},
			says: "cannot: the ccmadm of its pod is v0.1.0, and here it is test",
		},
		{
			name: "over SSH it is the machine's",
			do:   fromHere("ssh", map[string]Told{"w1": {Asked: true, Kubeadm: "v1.36.3", Ccmadm: "v0.1.0"}}),
			want: []string{"error U13 Node/w1"}, says: "its ccmadm is v0.1.0, and here it is test",
		},
		{
			name: "a kubelet that came too early",
			do:   fromHere("pods", map[string]Told{"w1": {Asked: true, Kubeadm: "v1.36.3", Kubelet: "v1.36.3"}}),
			want: []string{"warning U10 Node/w1"}, says: "do not restart it before the control planes are upgraded",
		},
		{
			name: "a worker that is done needs nothing",
			do:   fromHere("pods", map[string]Told{"w1": {Asked: true, Kubeadm: "v1.35.4", Upgraded: "v1.36.3"}}),
			says: "w1       worker         v1.35.4  -        -       nothing",
		},
	} {
		tt.run(t)
	}
}

// A plan by hand knows of other releases what Nodes say.
func TestNew_OtherReleases(t *testing.T) {
	for _, tt := range []row{
		{name: "nothing is known", do: func(f *Facts) { f.Nodes[1].Ccmadm = "v0.1.0" }}, // here it is this one by now
		{
			name: "another", do: func(f *Facts) { f.Nodes[0].Ccmadm = "v0.1.0" },
			want: []string{"warning U14 "}, says: "install the same release on all",
		},
		{name: "a worker's does not matter", do: func(f *Facts) { f.Nodes[2].Ccmadm = "v0.1.0" }},
	} {
		tt.run(t)
	}
}

func TestNew_StepsFromHere(t *testing.T) {
	skipped, done := Told{Skipped: true}, Told{Asked: true, Kubeadm: "v1.36.3", Upgraded: "v1.36.3", Ccmadm: "test"}
	unfinished := done
	unfinished.Unfinished = true
	isDone := func(f *Facts) { allAt(f, "v1.36.3", "v1.36.1") }
	for _, tt := range []struct {
		name  string
		told  map[string]Told
		do    func(*Facts)
		first string
		what  string
	}{
		{
			name: "all", first: "cp2: ccmadm upgrade apply v1.36.3 --via pods",
			what: "upgrade the control plane, and from here cp1, w1",
		},
		{
			name: "a control plane is left out", told: map[string]Told{"cp1": skipped},
			first: "cp2: ccmadm upgrade apply v1.36.3 --via pods", what: "upgrade the control plane, and from here w1",
		},
		{
			name: "this one is done", first: "cp2: ccmadm upgrade apply v1.36.3 --via pods",
			what: "upgrade cp1, w1 from here",
			do:   func(f *Facts) { f.Cluster, f.Nodes[1].APIServer = "v1.36.3", "v1.36.3" },
		},
		{
			name: "with the flags of this time", told: map[string]Told{"cp1": skipped},
			first: "cp2: ccmadm upgrade apply v1.36.3 --via pods --skip=cp1 --node-image=x",
			what:  "upgrade the control plane, and from here w1",
			do:    func(f *Facts) { f.Again = []string{"--skip=cp1", "--node-image=x"} },
		},
		{
			name: "a worker was cut short", told: map[string]Told{"cp1": done, "w1": unfinished}, do: isDone,
			first: "cp2: ccmadm upgrade apply v1.36.3 --via pods", what: "upgrade w1 from here",
		},
		{
			name: "another control plane was cut short", told: map[string]Told{"cp1": unfinished, "w1": done}, do: isDone,
			first: "cp2: ccmadm upgrade apply v1.36.3 --via pods", what: "upgrade cp1 from here",
		},
		{
			name: "this one was cut short", told: map[string]Told{"cp1": done, "w1": done},
			first: "cp2: ccmadm upgrade apply v1.36.3 --via pods", what: "upgrade the control plane",
			do: func(f *Facts) { isDone(f); f.CutShort = "ccmadm upgrade apply v1.36.3" },
		},
		{
			name: "this one was cut short as a further one", told: map[string]Told{"cp1": done, "w1": unfinished},
			first: "cp2: ccmadm upgrade node", what: "finish the upgrade that was interrupted or is partial",
			do: func(f *Facts) { isDone(f); f.CutShort = "ccmadm upgrade node" },
		},
		{
			name: "another one is the first", told: map[string]Told{"cp1": done},
			first: "cp2: ccmadm upgrade node", what: "upgrade the control plane",
			do: func(f *Facts) { f.Cluster, f.Nodes[0].APIServer = "v1.36.3", "v1.36.3" },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := planned(t, func(f *Facts) {
				if tt.do != nil {
					tt.do(f)
				}
				fromHere("pods", tt.told)(f)
			})
			all := steps(p)
			if diff := cmp.Diff([]string{tt.first, tt.what}, []string{all[0], p.Steps[0].What}); diff != "" {
				t.Errorf("first (-want +got):\n%s", diff)
			}
			byHand := strings.Contains(strings.Join(all, "\n"), "cp1: ccmadm upgrade node")
			if byHand != tt.told["cp1"].Skipped {
				t.Errorf("steps are %q", all)
			}
			var text bytes.Buffer
			if err := p.WriteSteps(&text); err != nil || strings.Contains(text.String(), "kubeadm v1.36.3; install kubelet") {
				t.Errorf("%v\n%s", err, text.String())
			}
		})
	}
}

// What its owner has cordoned stays so; whether it was the drain, nobody knows.
func TestNew_Cordoned(t *testing.T) {
	for schedulable, want := range map[bool]string{
		true: "w1: kubectl uncordon w1", false: "w1: kubectl uncordon w1 # unless it is to stay cordoned",
	} {
		p := planned(t, func(f *Facts) { f.Nodes[2].Schedulable = schedulable })
		if got := steps(p); !slices.Contains(got, want) {
			t.Errorf("schedulable %t: want %q in %q", schedulable, want, got)
		}
	}
}
