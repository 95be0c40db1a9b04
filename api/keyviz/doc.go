// Package keyviz answers /api/v1/keyviz: heat maps of row keys, their hottest ranges and single cells, as JSON.
package keyviz
