// Package keyaudit is `tsdb keys audit`. It reads label values of a server through its label API, and finds values that do
// not belong in row keys. These are personal data, and numbers or times that grow. It never reads a table.
package keyaudit
