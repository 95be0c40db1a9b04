// Package pace makes work in the background wait: for as long as it leaves the machine to others, or until its next turn.
// All waiting ends with a context.
package pace
