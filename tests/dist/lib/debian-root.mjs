// A fresh Debian root, in which commands run as on a machine of its own. Only its systemd does not run: the
// test starts what the units name.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { SOON_MS, withTimeout } from '../../interop/lib/deadlines.mjs'
import { run, temporaryFolder } from './packed.mjs'

/** The shell mounts what programs expect, in a mount namespace that ends with the command. */
const ENTER = `mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && root=$1 && shift && exec chroot "$root" "$@"`
const PACKAGES = 'init,ca-certificates,strace'

/** The root folder of a Debian system. */
export class DebianRoot {
  folder

  constructor(folder) {
    this.folder = folder
  }

  /**
   * Downloads and unpacks the packages of a small system of this machine's release. To save the minutes that
   * this takes, `DEBIAN_ROOT` names a tar archive that mmdebstrap wrote with the same options.
   */
  static create(atEnd) {
    assert.equal(process.getuid(), 0, 'cannot make a Debian root without being root; run the tests with sudo')
    const [, suite] = /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync('/etc/os-release', 'utf8'))
    const folder = path.join(temporaryFolder(atEnd), 'root')
    const { DEBIAN_ROOT } = process.env
    if (DEBIAN_ROOT) {
      mkdirSync(folder)
      run('tar', ['--extract', '--numeric-owner', `--file=${DEBIAN_ROOT}`, `--directory=${folder}`])
    } else {
      run('mmdebstrap', ['--quiet', '--mode=root', '--variant=minbase', `--include=${PACKAGES}`, suite, folder])
    }
    copyFileSync('/etc/resolv.conf', path.join(folder, 'etc/resolv.conf'))
    // As the installer of Debian writes it.
    writeFileSync(path.join(folder, 'etc/hosts'), '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n')
    return new DebianRoot(folder)
  }

  path(file) {
    return path.join(this.folder, file)
  }

  read(file) {
    return readFileSync(this.path(file), 'utf8')
  }

  /** A command line that runs a program in it. */
  command(...line) {
    return ['unshare', '--mount', 'sh', '-c', ENTER, 'sh', this.folder, ...line]
  }

  /** Runs a shell command as root, in /root; returns what it printed. */
  run(text) {
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' }
    const [program, ...args] = this.command('sh', '-c', `cd /root && { ${text}\n} 2>&1`)
    return run(program, args, { env })
  }

  /** A setting of an installed unit. */
  unitSetting(unit, key) {
    const values = [...this.read(`/lib/systemd/system/${unit}`).matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))]
    assert.equal(values.length, 1, `${unit} has one ${key}`)
    return values[0][1]
  }

  /**
   * Starts the main process of a service as its unit says: its command, its user, its capability, no new
   * privileges. `wrapper` are words before the command. Resolves when a line matches `ready`.
   */
  async startService(unit, { namespace, ready, atEnd, wrapper = [], home = '/' }) {
    const user = this.unitSetting(unit, 'User')
    const words = this.unitSetting(unit, 'ExecStart').split(' ')
    const capability = ['--inh-caps=+net_bind_service', '--ambient-caps=+net_bind_service', '--bounding-set=-all,+net_bind_service']
    const privileges = ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--init-groups', '--no-new-privs', ...capability]
    const [program, ...args] = namespace.command(...this.command(...privileges, ...wrapper, ...words))
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: home } })
    const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })))
    atEnd(() => child.kill('SIGKILL'))
    const lines = []
    const isReady = new Promise((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr]) {
        createInterface({ input: stream }).on('line', (line) => {
          lines.push(line)
          if (ready.test(line)) resolve(null)
        })
      }
      ended.then(({ code }) => reject(new Error(`${unit} ended with ${code}: ${lines.join('\n')}`)))
    })
    await withTimeout(isReady, `${unit} starts`, SOON_MS)
    return {
      /** Sends SIGTERM, and resolves to the exit code. */
      async stop() {
        child.kill('SIGTERM')
        return (await withTimeout(ended, `${unit} stops`, 2 * SOON_MS)).code
      },
    }
  }
}
