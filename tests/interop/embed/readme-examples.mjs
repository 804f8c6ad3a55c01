// The examples in the READMEs of the packages, as pages of a site. Only the address of the server differs, which `serveSite` sets.

import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const PACKAGES = fileURLToPath(new URL('../../../web/packages', import.meta.url))
/** The examples take this name from their surroundings. */
const SURROUNDINGS = 'const cid = location.hash.slice(1)\n'

/** The examples by their titles: the section and the language. `file` is the page of the site that runs the example. */
export const EXAMPLES = ['pages', 'element'].flatMap(examplesOf)

function examplesOf(name) {
  const sections = readFileSync(path.join(PACKAGES, name, 'README.md'), 'utf8').split(/^#+ /m)
  const examples = sections.flatMap((section) => {
    const [heading] = section.split('\n', 1)
    return [...section.matchAll(/^```(ts|html)\n(.*?)^```$/gms)].map(([, language, code]) => ({ heading, language, code }))
  })
  return examples.map((example, index) => ({
    ...example,
    title: `${example.heading}: ${example.language}`,
    file: `${name}-${index}.html`,
  }))
}

/** Writes a page for each example into the folder of a site. */
export function writeExamples(folder) {
  for (const { file, language, code } of EXAMPLES) {
    const module = file.replace('html', 'ts')
    writeFileSync(path.join(folder, module), language === 'ts' ? SURROUNDINGS + code : "import '@watchfire/element'\n")
    const body = language === 'html' ? code : ''
    writeFileSync(
      path.join(folder, file),
      `<!doctype html><title>${file}</title><body>${body}<script type="module" src="${module}"></script></body>`,
    )
  }
}
