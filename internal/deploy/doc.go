// Package deploy holds the tests of what a deployment is made of:
// docker-compose.yml, Dockerfile and the part of docs/operate.md that speaks of
// them.
package deploy
