import { describe, expect, it } from 'vitest'
import { SiteFolder } from './folder.ts'
import { filePathOf, siteOrigin, urlPathOf } from './origin.ts'

const folder = (...paths: string[]) => new SiteFolder(paths.map((path) => ({ path })))
const site = folder(
  'index.html',
  'Style.css',
  'docs/index.htm',
  'docs/a b.html',
  'pictures/deep/cat.png',
  'über/да & #?.html',
  'e\u0301.html',
  '%41.html',
)
const fileAt = (urlPath: string) => {
  const found = site.find(urlPath)
  return found.kind === 'file' ? found.file.path : found
}

describe('a URL path of a site', () => {
  it.each([
    ['/', 'index.html'],
    ['/index.html', 'index.html'],
    ['/docs/', 'docs/index.htm'],
    ['/docs/a%20b.html', 'docs/a b.html'],
    ['/%C3%BCber/%D0%B4%D0%B0%20%26%20%23%3F.html', 'über/да & #?.html'],
    ['/%c3%a9.html', 'e\u0301.html'],
    ['/%2541.html', '%41.html'],
  ])('%s is the file %s', (urlPath, path) => {
    expect(fileAt(urlPath)).toBe(path)
  })

  it.each(['/gone.html', '/style.css', '/docs/gone', '//index.html', '/docs//a%20b.html', '/index.html/', '/constructor', '/__proto__/'])(
    '%s is absent',
    (urlPath) => expect(fileAt(urlPath)).toMatchObject({ kind: 'absent' }),
  )

  it.each(['/%2e%2e/x', '/docs%2findex.htm', '/%00', '/%ff', '/%', '/..'])('%s is not valid', (urlPath) => {
    expect(fileAt(urlPath)).toEqual({ kind: 'absent', path: null })
  })

  it('of a folder without a trailing slash is redirected', () => {
    expect(fileAt('/docs')).toEqual({ kind: 'redirect', urlPath: '/docs/' })
    expect(fileAt('/%C3%BCber')).toEqual({ kind: 'redirect', urlPath: '/%C3%BCber/' })
  })

  it('of a folder without an index file lists its names', () => {
    expect(fileAt('/pictures/')).toEqual({ kind: 'folder', path: 'pictures', names: ['deep/'] })
    expect(fileAt('/pictures/deep/')).toEqual({ kind: 'folder', path: 'pictures/deep', names: ['cat.png'] })
    expect(folder('a.txt', 'b/c/d').find('/')).toEqual({ kind: 'folder', path: '', names: ['a.txt', 'b/'] })
  })

  it('finds files and folders whose accents are written in another way', () => {
    const decomposed = folder('Gru\u0308\u00dfe/index.html', 'Gru\u0308\u00dfe/e\u0301/a.txt')
    expect(decomposed.find('/Gr%C3%BC%C3%9Fe/')).toMatchObject({ kind: 'file' })
    expect(decomposed.find('/Gr%C3%BC%C3%9Fe')).toMatchObject({ kind: 'redirect' })
    expect(decomposed.find('/Gr%C3%BC%C3%9Fe/%C3%A9/')).toMatchObject({ kind: 'folder', names: ['a.txt'] })
  })

  it('maps every file path to a URL path and back', () => {
    for (const path of ['a', 'a/b c/d', '100%', '?#&=+', '日本/語.html', "it's", 'a\\b', '..a/...']) {
      expect(filePathOf(urlPathOf(path)), path).toBe(path)
      expect(new URL(urlPathOf(path), 'http://x').pathname, path).toBe(urlPathOf(path))
    }
  })
})

describe('the origin of a site', () => {
  const key = 'bafybeicl2vqmrnvrbfywpem5bcbbv2vx4fwsg5ooa6yvmczz3dvh5f7pzm'
  it('starts with the CID', () => {
    expect(siteOrigin(key, 'localhost:4000', 'http:')).toBe(`http://${key}.localhost:4000`)
  })

  it('is null without a site domain, or for a CID that does not fit into a host name', () => {
    expect(siteOrigin(key, null, 'http:')).toBeNull()
    expect(siteOrigin(`b${'a'.repeat(63)}`, 'localhost', 'http:')).toBeNull()
    expect(siteOrigin('zdj7W', 'localhost', 'http:')).toBeNull()
  })
})
