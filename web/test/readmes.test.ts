import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const WEB = path.join(import.meta.dirname, '..')

/** The names that the examples take from their surroundings. */
const SURROUNDINGS = 'declare const cid: string\n'

describe('the examples of the READMEs', () => {
  it('are correct programs', () => {
    mkdirSync(path.join(WEB, 'node_modules/.cache'), { recursive: true })
    const folder = mkdtempSync(path.join(WEB, 'node_modules/.cache/readmes-'))
    try {
      const examples = ['pages', 'element'].flatMap((name) => {
        const text = readFileSync(path.join(WEB, 'packages', name, 'README.md'), 'utf8')
        return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code)
      })
      expect(examples.length).toBeGreaterThan(2)
      for (const [i, code] of examples.entries()) writeFileSync(path.join(folder, `example-${i}.ts`), SURROUNDINGS + code)
      const inWeb = (file: string) => path.relative(folder, path.join(WEB, file))
      const settings = {
        extends: inWeb('tsconfig.json'),
        include: ['*.ts', inWeb('packages/**/*.d.ts')],
        exclude: [inWeb('packages/*/dist')],
      }
      writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(settings))
      const tsc = path.join(WEB, 'node_modules/.bin/tsc')
      expect(spawnSync(tsc, ['-p', folder], { encoding: 'utf8' }).stdout).toBe('')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
