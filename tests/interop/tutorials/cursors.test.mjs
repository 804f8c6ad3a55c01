// docs/tutorial/cursors.md works as it is written, with real Python, npm and Chromium. Only the ports differ.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { launch } from '../lib/chromium.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { binary } from '../lib/server.mjs'

const TUTORIAL = new URL('../../../docs/tutorial/cursors.md', import.meta.url)

/** The code blocks of the tutorial: commands, and files by name. */
function blocks(text) {
  const commands = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block)
  const files = [...text.matchAll(/^`([\w.]+)`:\n\n```\w+\n(.*?)^```$/gms)].map(([, name, block]) => [name, block])
  return { commands, files }
}

describe('the tutorial of live cursors', () => {
  const folder = newFolder()
  let shell
  let browser
  let page

  before(async () => {
    const [ours, theirs] = await listeningPorts(2)
    const text = readFileSync(TUTORIAL, 'utf8')
      .replaceAll('localhost:4000', `localhost:${ours}`)
      .replaceAll('localhost:8000', `localhost:${theirs}`)
    const { commands, files } = blocks(text)
    assert.deepEqual(
      files.map(([name]) => name),
      ['watchfire.toml', 'app.py', 'page.html'],
    )
    for (const [name, content] of files) writeFileSync(path.join(folder, name), content)
    const [libraries, secrets, run] = commands
    const ports = run
      .replace('watchfire serve', `watchfire serve --listen 127.0.0.1:${ours} --set admin.listen=127.0.0.1:0`)
      .replace('--port 8000', `--port ${theirs}`)
    // make tools has installed Debian's packages.
    const script = `set -em\n${libraries.replace(/^sudo apt-get.*$/m, '')}\n${secrets}\n${ports}\nwait`
    // Without variables that the server would read as settings.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('WATCHFIRE_')))
    env.PATH = `${path.dirname(binary('watchfire'))}:${env.PATH}`
    shell = spawn('bash', ['-c', script], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    shell.output = ''
    for (const stream of [shell.stdout, shell.stderr]) stream.setEncoding('utf8').on('data', (part) => (shell.output += part))
    page = `http://localhost:${theirs}`
    await waitUntil(
      async () => {
        assert.equal(shell.exitCode, null, shell.output)
        const answers = await Promise.allSettled([fetch(page), fetch(`http://localhost:${ours}/readyz`)])
        return answers.every((answer) => answer.status === 'fulfilled' && answer.value.ok)
      },
      'both servers answer',
      60_000,
    ).catch((error) => assert.fail(`${error.message}: ${shell.output}`))
    browser = await launch()
  })

  after(async () => {
    await browser?.close()
    // Each job of the shell is a process group of its own.
    const children = readFileSync(`/proc/${shell.pid}/task/${shell.pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
    for (const pid of children) process.kill(Number(pid), 'SIGTERM')
    process.kill(shell.pid, 'SIGTERM')
  })

  it('shows the pointer of one visitor to another, and clears it for both', async () => {
    const open = async (name) => {
      const tab = await (await browser.newContext()).newPage()
      await tab.goto(`${page}/?name=${name}`)
      await tab.waitForFunction((own) => document.getElementById('people').textContent.includes(own), name)
      return tab
    }
    const [ada, bob] = [await open('ada'), await open('bob')]
    for (const tab of [ada, bob]) {
      await tab.waitForFunction(() => document.getElementById('people').textContent.split(', ').toSorted().join() === 'ada,bob')
    }
    await ada.mouse.move(40, 60)
    await ada.mouse.move(120, 90)
    await bob.waitForFunction(() => {
      /** @type {HTMLElement | null} */
      const cursor = document.querySelector('.cursor')
      return cursor?.textContent === '➤ ada' && cursor.style.left.endsWith('px')
    })
    await bob.click('#clear')
    for (const tab of [ada, bob]) await tab.waitForFunction(() => !document.querySelector('.cursor'))
    await bob.close()
    await ada.waitForFunction(() => document.getElementById('people').textContent === 'ada')
  })
})
