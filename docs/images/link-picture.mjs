// Draws the picture that other services show beside a link to a server: the flame of the app and its name. It is a part of the app,
// because a server knows nothing of the content of a page.
//
//   node docs/images/link-picture.mjs

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

import { engineOfTests } from '../../tests/interop/lib/engines/index.mjs'

const PUBLIC = new URL('../../web/app/public/', import.meta.url)
const flame = readFileSync(new URL('favicon.svg', PUBLIC), 'utf8')
const page = `<!doctype html>
<style>
  body { margin: 0; height: 630px; display: grid; place-content: center; justify-items: center; gap: 24px; background: #15131a; color: #f1eae2; font: 36px "DejaVu Sans", sans-serif }
  svg { width: 250px }
  b { font-size: 76px; letter-spacing: -.02em }
  p { margin: 0; color: #aaa0a8 }
</style>
${flame}<b>Watchfire</b><p>A page that burns as long as someone has it open</p>`

const browser = await engineOfTests.launch()
const tab = await browser.newPage({ viewport: { width: 1200, height: 630 } })
await tab.setContent(page)
await tab.screenshot({ path: fileURLToPath(new URL('link.png', PUBLIC)) })
await browser.close()
