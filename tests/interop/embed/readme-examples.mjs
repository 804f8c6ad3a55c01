// The examples in the READMEs of the packages and in the reference, as pages of a site. Only the address of the server differs, which
// `serveSite` sets.

import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const DOCUMENTS = {
  pages: 'web/packages/pages/README.md',
  element: 'web/packages/element/README.md',
  reference: 'docs/reference/javascript-pages.md',
}
/** The examples take these names from their surroundings. */
const SURROUNDINGS = 'const [link, cid] = new URLSearchParams(location.hash.slice(1)).values()\n'

/** The examples by their titles: the section and the language. `file` is the page of the site that runs the example. */
export const EXAMPLES = Object.entries(DOCUMENTS).flatMap(examplesOf)

function examplesOf([name, document]) {
  const sections = readFileSync(path.join(REPOSITORY, document), 'utf8').split(/^#+ /m)
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
