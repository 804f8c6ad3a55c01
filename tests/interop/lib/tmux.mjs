// A program in a real terminal: tmux, which draws what the program writes as any terminal does.

import { execFileSync, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'

import { SOON_MS, waitUntil } from './deadlines.mjs'

/** Whether tmux is installed. */
export const hasTmux = spawnSync('tmux', ['-V']).status === 0

/** One terminal with a shell, on a tmux server of its own (`-u`: with UTF-8, whatever the locale). */
export class TmuxTerminal {
  #socket = `watchfire-${randomUUID()}`

  /** `env` has further variables of the shell. */
  constructor({ columns = 100, rows = 30, env = {} } = {}) {
    const variables = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`])
    this.#tmux('-f', '/dev/null', 'new-session', '-d', '-x', String(columns), '-y', String(rows), ...variables, 'sh')
    this.#tmux('set-option', '-g', 'escape-time', '0')
  }

  #tmux(...args) {
    return execFileSync('tmux', ['-u', '-L', this.#socket, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  }

  /** The screen as text, without spaces at the ends of lines. */
  text() {
    return this.#tmux('capture-pane', '-p')
  }

  lines() {
    return this.text().split('\n')
  }

  /** The screen with the escape sequences of its colours. */
  styled() {
    return this.#tmux('capture-pane', '-p', '-e')
  }

  /** Presses keys, each by its tmux name: `Enter`, `Escape`, `C-c`, `Down`, or a character. */
  press(...keys) {
    this.#tmux('send-keys', ...keys)
  }

  /** Types text as it is. */
  type(text) {
    this.#tmux('send-keys', '-l', text)
  }

  /** Types a command for the shell. */
  run(command) {
    this.type(command)
    this.press('Enter')
  }

  /** Writes on the screen, as another program does. */
  write(text) {
    writeFileSync(this.value('pane_tty'), text)
  }

  resize(columns, rows) {
    this.#tmux('resize-window', '-x', String(columns), '-y', String(rows))
  }

  /** A value of the terminal, such as `alternate_on` or `cursor_flag`. */
  value(name) {
    return this.#tmux('display-message', '-p', `#{${name}}`).trim()
  }

  /** Waits until the screen matches the pattern, and returns the match. */
  async shows(pattern, ms = SOON_MS) {
    let text = ''
    const found = () => {
      text = this.text()
      return pattern.exec(text)
    }
    try {
      return await waitUntil(found, `the terminal shows ${pattern}`, ms)
    } catch (error) {
      throw new Error(`${error.message}\n${text}`)
    }
  }

  /** Ends the shell, the program in it, and the tmux server. */
  end() {
    const socket = this.value('socket_path')
    this.#tmux('kill-server')
    rmSync(socket, { force: true })
  }
}
