//go:build race

package announce

const raceDetector = true
