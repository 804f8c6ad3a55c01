import { describe, expect, it } from 'vitest'
import { BLOCK_LENGTH_MAX, blocksOf, mixesDirectionsTooOften, TEXT_SHOWN_BYTES_MAX, textOf } from './text.ts'

describe('a text', () => {
  it('is shown whole when it is short', async () => {
    expect(await textOf(new Blob(['grüße']))).toEqual({ text: 'grüße', cut: null })
    expect(await textOf(new Blob([Uint8Array.of(0xff, 0xfe, 0xfc, 0)]))).toEqual({ text: 'ü', cut: null })
  })

  it('is shown from its start when it is long, with a note', async () => {
    const { text, cut } = await textOf(new Blob(['x', 'ü'.repeat(TEXT_SHOWN_BYTES_MAX / 2)]))
    expect(text).toHaveLength(TEXT_SHOWN_BYTES_MAX / 2)
    expect(text.endsWith('ü')).toBe(true)
    expect(cut).toBe('This is the first 4 MiB of 4 MiB. Save the file to read the rest.')
  })
})

describe('the blocks of a text', () => {
  it('are split between lines', () => {
    const lines = Array.from({ length: 3000 }, (_, i) => `line ${i}`).join('\n')
    const blocks = blocksOf(lines)
    expect(blocks.length).toBeGreaterThan(1)
    expect(blocks.join('\n')).toBe(lines)
    expect(Math.max(...blocks.map(({ length }) => length))).toBeLessThanOrEqual(BLOCK_LENGTH_MAX)
  })

  it('are split within a line that is too long, but not within a character', () => {
    const line = `x${'🔥'.repeat(BLOCK_LENGTH_MAX)}`
    const blocks = blocksOf(line)
    expect(blocks.join('')).toBe(line)
    expect(blocks.every((block) => block.isWellFormed())).toBe(true)
  })

  it('are a single one for a short text', () => {
    expect(blocksOf('')).toEqual([''])
    expect(blocksOf('a\n\nb')).toEqual(['a\n\nb'])
  })
})

describe('a text with too many direction changes', () => {
  it('changes direction more often than natural text', () => {
    expect(mixesDirectionsTooOften('\u05d0a '.repeat(20_000))).toBe(true)
    expect(mixesDirectionsTooOften('\u05e9\u05dc\u05d5\u05dd '.repeat(50_000))).toBe(false)
    expect(mixesDirectionsTooOften('hello '.repeat(50_000))).toBe(false)
  })
})
