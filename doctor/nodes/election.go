package nodes

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/templates"
)

// Unelected says that a manager's pod asks for no Lease: some vendors run one replica, with --leader-elect=false.
func Unelected(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		arg, told := templates.LookupArg(templates.ReadArgs(c), "leader-elect")
		elects, err := strconv.ParseBool(arg.Value)
		return told && err == nil && !elects
	})
}

// elect says of the manager's pods which leads without the Lease, and whether any of them would ask for it.
func (l *leadership) elect(pods []corev1.Pod, now time.Time) {
	l.unelected = len(pods) > 0
	for i := range pods {
		p := &pods[i]
		switch {
		case !Unelected(&p.Spec):
			l.unelected = false
		case l.alone == "" && works(p, now):
			l.alone = p.Name
		}
	}
	if !l.unelected {
		l.alone = "" // one that asks for no Lease says nothing of those that do
		return
	}
	l.err = nil // a manager that asks for no Lease needs none
}

// works says that a pod is ready, and has not just begun after it failed.
func works(p *corev1.Pod, now time.Time) bool {
	status := mainStatus(p)
	return p.DeletionTimestamp == nil && IsPodReady(p) && status != nil && status.State.Running != nil && !failed(status, now)
}
