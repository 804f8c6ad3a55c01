// A network namespace: servers have their usual ports there, and nothing else on the machine can use them.

import { spawn } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { BY_RELAY_ONLY, launch } from '../../interop/lib/chromium.mjs'
import { SOON_MS, waitUntil, withTimeout } from '../../interop/lib/deadlines.mjs'
import { PageDriver } from '../../interop/browser/page-driver.mjs'
import { run, temporaryFolder } from './packed.mjs'

/** The network namespace of a process. */
export class NetworkNamespace {
  #pid

  constructor(pid) {
    this.#pid = pid
  }

  /** A new namespace with a loopback interface, until the end. */
  static async create(atEnd) {
    const script = 'ip link set lo up && echo ready && exec sleep infinity'
    const child = spawn('unshare', ['--net', 'sh', '-c', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    atEnd(() => child.kill('SIGKILL'))
    await withTimeout(new Promise((resolve) => child.stdout.once('data', resolve)), 'a network namespace is up')
    return new NetworkNamespace(child.pid)
  }

  /** A command line that runs a program in it. */
  command(...line) {
    return ['nsenter', `--net=/proc/${this.#pid}/ns/net`, ...line]
  }

  /** Waits until a URL answers with 200 there. The certificate may be the proxy's own. */
  async answers(url, ms = SOON_MS) {
    const [program, ...args] = this.command('curl', '--silent', '--insecure', '--output', '/dev/null', '--write-out', '%{http_code}', url)
    await waitUntil(() => runQuietly(program, args) === '200', `${url} answers`, ms)
  }

  /** A browser in it. */
  async launchBrowser(atEnd) {
    const wrapper = path.join(temporaryFolder(atEnd), 'chromium')
    writeFileSync(wrapper, `#!/bin/sh\nexec ${this.command(process.env.CHROMIUM ?? '/usr/bin/chromium').join(' ')} "$@"\n`)
    chmodSync(wrapper, 0o755)
    const browser = await launch([...BY_RELAY_ONLY, '--ignore-certificate-errors', '--no-proxy-server'], wrapper)
    atEnd(() => browser.close())
    return browser
  }
}

function runQuietly(program, args) {
  try {
    return run(program, args)
  } catch {
    return ''
  }
}

/** One visitor shares a page at that address, and another one reads it. */
export async function shareAndOpen(browser, address) {
  const [holder, visitor] = await Promise.all([1, 2].map(async () => PageDriver.inContext(null, await browser.newContext(), { address })))
  const link = await holder.sharePage({ text: '# Installed\n\nThe words of the page.' })
  await visitor.goTo(link)
  await visitor.waitForText('The words of the page.')
  await visitor.waitForStatus('2 people have all of it, including you')
  for (const person of [holder, visitor]) {
    person.assertNoPageErrors()
    await person.leave()
  }
}
