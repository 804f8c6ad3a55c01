import { describe, expect, it } from 'vitest'
import { safeName, safePaths } from './saved.ts'

describe('a saved name', () => {
  it('is unchanged in every script', () => {
    for (const name of ['notes.md', 'Grüße 世界 🔥.txt', 'عربي.mp4', '.gitignore', 'a b (2).tar.gz', 'CONsole.txt', 'com10.txt']) {
      expect(safeName(name)).toBe(name)
    }
  })

  it('cannot contain a path or hidden characters', () => {
    expect(safeName('..')).toBe('_')
    expect(safeName('../../etc/passwd')).toBe('.._.._etc_passwd')
    expect(safeName('a\\b:c*d?e"f<g>h|i')).toBe('a_b_c_d_e_f_g_h_i')
    expect(safeName('photo\u202egpj.exe')).toBe('photogpj.exe')
    expect(safeName('a\u0000b\nc\u007f')).toBe('abc')
    expect(safeName('')).toBe('_')
    expect(safeName('trailing. . .')).toBe('trailing')
    expect(safeName('lone \ud800 half')).toBe('lone \ufffd half')
  })

  it('is not a device name of Windows', () => {
    for (const name of ['con', 'NUL.txt', 'aux.tar.gz', 'COM1', 'lpt9.log', 'COM¹', 'CONIN$']) expect(safeName(name)).toBe(`_${name}`)
  })

  it('fits every file system and keeps its extension', () => {
    const long = safeName(`${'世'.repeat(200)}.webm`)
    expect(new TextEncoder().encode(long).length).toBeLessThanOrEqual(255)
    expect(long).toMatch(/^世+\.webm$/)
    // A cut must not end a name with a space or dot, which Windows drops.
    expect(safeName(`${'x'.repeat(254)} yy`)).toBe('x'.repeat(254))
    expect(safeName(`${'x'.repeat(254)}.${'y'.repeat(20)}`)).toBe('x'.repeat(254))
  })
})

describe('saved paths', () => {
  it('of thousands of similar names take no minutes', () => {
    const letters = [...'abcdefghijklmno']
    const similar = Array.from({ length: 20_000 }, (_, i) =>
      letters.map((letter, at) => ((i >> at) & 1 ? letter.toUpperCase() : letter)).join(''),
    )
    expect(new Set(safePaths(similar).map((path) => path.toLowerCase())).size).toBe(similar.length)
  })

  it('keep their folders', () => {
    expect(safePaths(['a/b/c.txt', 'a/d.txt', 'e.txt'])).toEqual(['a/b/c.txt', 'a/d.txt', 'e.txt'])
  })

  it('stay distinct on systems that treat similar names as equal', () => {
    expect(safePaths(['A.txt', 'a.txt', 'a?.txt', 'a_.txt', 'a:.txt'])).toEqual([
      'A.txt',
      'a (2).txt',
      'a_.txt',
      'a_ (2).txt',
      'a_ (3).txt',
    ])
    expect(safePaths(['x./1', 'x/1', 'x'])).toEqual(['x/1', 'x (2)/1', 'x (3)'])
    expect(safePaths(['a', 'A', 'a (2)', 'a', 'A'])).toEqual(['a', 'A (2)', 'a (2) (2)', 'a (3)', 'A (4)'])
    expect(safePaths(['../../up', '../..'])).toEqual(['_/_/up', '_/_ (2)'])
  })
})
