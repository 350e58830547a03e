//go:build !race

package l2

const raceDetector = false
