// WebKitGTK's MiniBrowser as released, over classic WebDriver, on a display of its own.
//
// WebKitWebDriver serves one session, so each visitor has a process of it. It can neither run a script before those of a
// page nor report requests and dialogs. The console of the page goes to the standard output of the browser.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { SOON_MS, withTimeout } from '../deadlines.mjs'
import { newFolder } from '../folders.mjs'
import { listeningPorts } from '../listening-ports.mjs'
import { Program } from '../program.mjs'
import { DownloadFolder } from './downloads.mjs'
import { WebDriverSession } from './webdriver-session.mjs'
import { WebDriverContext } from './webdriver-page.mjs'

const DRIVER = process.env.WEBKIT_DRIVER ?? '/usr/bin/WebKitWebDriver'
const DISPLAY_SERVER = '/usr/bin/Xvfb'
const SCREEN = '1280x900x24'
/** A line of the console: `http://localhost:1/app.js:1:2: CONSOLE JS ERROR Error: why`. */
const CONSOLE_ERROR = /^(.*?): ?CONSOLE (?:[A-Z]+ )?ERROR (.*)$/
const NO_DEVTOOLS = 'the test uses the DevTools protocol of Chromium'

export const webkit = {
  name: 'webkit',
  title: 'WebKitGTK',
  canConnectDirectly: false,
  lacks: {
    devtools: NO_DEVTOOLS,
    'init-scripts': 'classic WebDriver has no script that runs before those of the page',
    events: 'classic WebDriver has no events',
    netlog: 'the test reads the network log of Chromium',
    media: 'classic WebDriver cannot set colours and motion',
    webrtc: 'it has no WebRTC',
    sites: 'its service workers get no requests of frames in a frame, so a site is shown one page at a time',
    disk: 'it has no private files of a site (OPFS), so received blocks stay in memory',
  },
  opens: ['connections'],
  whyMissing() {
    const missing = [DRIVER, DISPLAY_SERVER].find((program) => !existsSync(program))
    return missing === undefined ? null : `${missing} does not exist; \`make engine-tools\` installs it`
  },
  launch: async () => new WebKit(await startDisplay()),
  prepare: (context) => context.pageErrors,
}

/** The path of MiniBrowser, which is no program in PATH. */
function miniBrowser() {
  const folder = `/usr/lib/${readdirSync('/usr/lib').find((name) => existsSync(`/usr/lib/${name}/webkit2gtk-4.1/MiniBrowser`))}`
  return `${folder}/webkit2gtk-4.1/MiniBrowser`
}

/** A folder with the settings of a desktop whose downloads go to that folder. */
function configurationFor(downloads) {
  const folder = newFolder()
  writeFileSync(path.join(folder, 'user-dirs.dirs'), `XDG_DOWNLOAD_DIR="${downloads.path}"\n`)
  return folder
}

/** Starts a display server on a free display, and returns its process and the name of the display. */
async function startDisplay() {
  const server = spawn(DISPLAY_SERVER, ['-displayfd', '3', '-screen', '0', SCREEN, '-nolisten', 'tcp'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  })
  const [line] = await withTimeout(once(server.stdio[3], 'data'), `${DISPLAY_SERVER} starts`, SOON_MS)
  return { server, display: `:${String(line).trim()}` }
}

/** A display, on which each context is a browser. */
class WebKit {
  #screen
  #contexts = new Set()

  constructor(screen) {
    this.#screen = screen
  }

  version() {
    return [...this.#contexts][0]?.version
  }

  isConnected() {
    return this.#screen.server.exitCode === null && this.#screen.server.signalCode === null
  }

  async newContext() {
    const [port] = await listeningPorts(1)
    const downloads = new DownloadFolder()
    const driver = new Program(DRIVER, [`--port=${port}`, '--host=127.0.0.1'], {
      env: {
        ...process.env,
        DISPLAY: this.#screen.display,
        XDG_CONFIG_HOME: configurationFor(downloads),
        GDK_BACKEND: 'x11',
        LIBGL_ALWAYS_SOFTWARE: '1',
        // The sandbox needs user namespaces, which containers often deny.
        WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1',
      },
    })
    const session = await WebDriverSession.open(`http://127.0.0.1:${port}`, driver, {
      browserName: 'MiniBrowser',
      'webkitgtk:browserOptions': {
        binary: miniBrowser(),
        args: ['--automation', '--enable-write-console-messages-to-stdout=true'],
      },
    })
    const context = new WebDriverContext(session, {
      browser: this,
      downloads,
      errors: () => consoleErrors(driver.output),
      end: async () => {
        this.#contexts.delete(context)
        await driver.stop()
      },
    })
    this.#contexts.add(context)
    return context
  }

  async close() {
    await Promise.all([...this.#contexts].map((context) => context.close()))
    this.#screen.server.kill()
  }
}

/** The errors that our own pages caused; those of untrusted documents are ignored. */
function consoleErrors(output) {
  const errors = output.split('\n').map((line) => CONSOLE_ERROR.exec(line))
  const isOurs = (place) => /^https?:\/\/localhost:\d+\/(?!\.watchfire)/.test(place)
  return errors.filter((match) => match !== null && isOurs(match[1])).map(([, place, words]) => `${words} (${place})`)
}
