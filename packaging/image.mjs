// Writes a container image, without a container engine: an OCI layout in a tar archive, with the program,
// the libraries that it loads, and the certificates of public authorities. Nothing else is in it.
//
//     node packaging/image.mjs PROGRAM VERSION OUTPUT.tar
//
// Libraries and certificates come from Debian packages that `apt-get download` fetches and verifies, and not
// from this machine, because its certificates may include those of a company. The same inputs give the same
// bytes.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gzipSync } from 'node:zlib'

/** The user of the server: no root, and a number so that Kubernetes can check it. */
const USER = 65532
const PACKAGES = ['libc6', 'libgcc-s1', 'ca-certificates']
const ARCHITECTURES = { x64: 'amd64', arm64: 'arm64' }
const STATE = 'var/lib/watchfire'

const [program, version, output] = process.argv.slice(2)
if (!output) throw new Error('cannot write an image: usage: image.mjs PROGRAM VERSION OUTPUT.tar')
const epoch = Number(process.env.SOURCE_DATE_EPOCH ?? 0)
const created = new Date(epoch * 1000).toISOString().replace('.000', '')
const work = mkdtempSync(path.join(tmpdir(), 'image-'))
try {
  const root = path.join(work, 'root')
  fill(root, PACKAGES.map(download))
  writeLayout(path.join(work, 'layout'), layerOf(root))
} finally {
  rmSync(work, { recursive: true, force: true })
}

/** Downloads and unpacks a package; returns its folder and its control file. */
function download(name) {
  const folder = path.join(work, name)
  mkdirSync(folder)
  // The unprivileged user of apt-get may not write to this folder.
  const options = ['--quiet', '--option=APT::Sandbox::User=root']
  try {
    execFileSync('apt-get', ['download', ...options, name], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  } catch {
    throw new Error(`cannot download ${name}, which the image needs: see the message of apt-get above; run \`apt-get update\` first`)
  }
  const archive = path.join(folder, readdirSync(folder)[0])
  const files = path.join(folder, 'files')
  execFileSync('dpkg-deb', ['--extract', archive, files])
  return { name, files, control: execFileSync('dpkg-deb', ['--field', archive], { encoding: 'utf8' }) }
}

/** The licences of a package. Some packages share the folder of another one. */
function copyrightOf({ name, files }) {
  const folder = path.join(files, 'usr/share/doc', name)
  if (!lstatSync(folder).isSymbolicLink()) return readFileSync(path.join(folder, 'copyright'))
  return copyrightOf(download(path.basename(readlinkSync(folder))))
}

/** Fills the root folder of the image. */
function fill(root, packages) {
  const write = (name, content) => {
    mkdirSync(path.dirname(path.join(root, name)), { recursive: true })
    writeFileSync(path.join(root, name), content)
  }
  mkdirSync(path.join(root, 'usr/bin'), { recursive: true })
  copyFileSync(program, path.join(root, 'usr/bin/watchfire'))
  for (const library of librariesOf(program, packages)) {
    mkdirSync(path.dirname(path.join(root, library.target)), { recursive: true })
    copyFileSync(library.source, path.join(root, library.target))
  }
  write('etc/ssl/certs/ca-certificates.crt', certificates(packages.find(({ name }) => name === 'ca-certificates').files))
  write('etc/passwd', `root:x:0:0:root:/:/sbin/nologin\nwatchfire:x:${USER}:${USER}:watchfire:/${STATE}:/sbin/nologin\n`)
  write('etc/group', `root:x:0:\nwatchfire:x:${USER}:\n`)
  write('etc/nsswitch.conf', 'hosts: files dns\n')
  for (const item of packages) {
    // Scanners look here for the versions of the packages in an image without dpkg.
    write(`var/lib/dpkg/status.d/${item.name}`, item.control)
    write(`usr/share/doc/${item.name}/copyright`, copyrightOf(item))
  }
  for (const licence of ['LICENSE-APACHE', 'LICENSE-MIT']) write(`usr/share/doc/watchfire/${licence}`, readFileSync(licence))
  mkdirSync(path.join(root, STATE), { recursive: true })
}

/** The files of the program's interpreter and of every library that it needs, in the packages. */
function librariesOf(file, packages, found = new Map()) {
  const headers = execFileSync('readelf', ['--wide', '--dynamic', '--program-headers', file], { encoding: 'utf8' })
  const interpreter = /Requesting program interpreter: (.*)\]/.exec(headers)?.[1]
  const needed = [...headers.matchAll(/\(NEEDED\)\s+Shared library: \[(.*)\]/g)].map(([, name]) => name)
  for (const name of [interpreter, ...needed].filter(Boolean)) {
    const base = path.basename(name)
    if (found.has(base)) continue
    const source = find(base, packages)
    // The loader has a fixed path, and searches the libraries in /lib and /usr/lib.
    const target = base.startsWith('ld-linux') ? loaderPath(base) : `lib/${base}`
    found.set(base, { source, target })
    librariesOf(source, packages, found)
  }
  return [...found.values()]
}

function loaderPath(base) {
  return base.includes('x86-64') ? `lib64/${base}` : `lib/${base}`
}

function find(base, packages) {
  for (const { files } of packages) {
    const triplets = ['lib', 'usr/lib'].flatMap((folder) => {
      const full = path.join(files, folder)
      return existsSync(full)
        ? readdirSync(full)
            .map((name) => path.join(full, name, base))
            .concat(path.join(full, base))
        : []
    })
    const source = [...triplets, path.join(files, 'lib64', base)].find((candidate) => existsSync(candidate))
    if (source) return realpathSync(source)
  }
  throw new Error(
    `cannot find ${base} in ${PACKAGES.join(', ')}: the program needs another library; add its package in packaging/image.mjs`,
  )
}

/** The certificates of the public authorities, in one file. */
function certificates(files) {
  const folder = path.join(files, 'usr/share/ca-certificates/mozilla')
  return readdirSync(folder)
    .sort()
    .map((name) => `${readFileSync(path.join(folder, name), 'utf8').trimEnd()}\n`)
    .join('')
}

/** The root folder as a tar archive in which nothing depends on this machine. */
function layerOf(root) {
  const tar = (...args) => execFileSync('tar', [...args], { maxBuffer: 1 << 30 })
  const file = path.join(work, 'layer.tar')
  const common = ['--format=gnu', '--sort=name', `--mtime=@${epoch}`, '--numeric-owner', `--directory=${root}`, `--file=${file}`]
  // The state belongs to the server's user, also as the first content of a new volume.
  tar('--create', ...common, '--owner=0', '--group=0', '--mode=u=rwX,go=rX', `--exclude=./${STATE}`, '.')
  tar('--append', ...common, `--owner=${USER}`, `--group=${USER}`, '--mode=0700', `./${STATE}`)
  return readFileSync(file)
}

function digestOf(bytes) {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** Writes the layout of an image with one layer, and packs it. */
function writeLayout(folder, layer) {
  const blobs = path.join(folder, 'blobs/sha256')
  mkdirSync(blobs, { recursive: true })
  const blob = (mediaType, bytes) => {
    const digest = digestOf(bytes)
    writeFileSync(path.join(blobs, digest.slice('sha256:'.length)), bytes)
    return { mediaType, digest, size: bytes.length }
  }
  const json = (mediaType, value) => blob(mediaType, Buffer.from(JSON.stringify(value)))

  const annotations = {
    'org.opencontainers.image.title': 'watchfire',
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.created': created,
    'org.opencontainers.image.licenses': 'MIT OR Apache-2.0',
    'org.opencontainers.image.source': 'https://github.com/watchfire/watchfire',
  }
  const architecture = ARCHITECTURES[process.arch]
  const platform = { architecture, os: 'linux' }
  const config = json('application/vnd.oci.image.config.v1+json', {
    created,
    ...platform,
    config: {
      User: `${USER}:${USER}`,
      ExposedPorts: { '4000/tcp': {}, '3478/udp': {} },
      // Any other setting of server.listen overrides this one, as does another PORT of the platform. STUN has
      // its usual port, whatever the platform's port is.
      Env: ['PATH=/usr/bin', 'PORT=4000', 'WATCHFIRE_STUN_LISTEN=0.0.0.0:3478,[::]:3478'],
      Entrypoint: ['/usr/bin/watchfire'],
      Cmd: ['serve'],
      WorkingDir: `/${STATE}`,
      StopSignal: 'SIGTERM',
      // Not part of the OCI format. Engines that know it from Docker's format use it.
      Healthcheck: { Test: ['CMD', '/usr/bin/watchfire', 'health'], Interval: 10e9, Timeout: 5e9, StartPeriod: 10e9, Retries: 3 },
      Labels: annotations,
    },
    rootfs: { type: 'layers', diff_ids: [digestOf(layer)] },
    history: [{ created, created_by: 'packaging/image.mjs' }],
  })
  const compressed = blob('application/vnd.oci.image.layer.v1.tar+gzip', gzipSync(layer, { level: 9 }))
  const manifest = json('application/vnd.oci.image.manifest.v1+json', {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config,
    layers: [compressed],
    annotations,
  })
  const name = { 'org.opencontainers.image.ref.name': version, 'io.containerd.image.name': `docker.io/library/watchfire:${version}` }
  const index = {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests: [{ ...manifest, platform, annotations: name }],
  }
  writeFileSync(path.join(folder, 'index.json'), JSON.stringify(index))
  // `docker load` without containerd's image store reads this file instead of the index.
  const place = ({ digest }) => `blobs/${digest.replace(':', '/')}`
  const loaded = [{ Config: place(config), RepoTags: [`watchfire:${version}`], Layers: [place(compressed)] }]
  writeFileSync(path.join(folder, 'manifest.json'), JSON.stringify(loaded))
  writeFileSync(path.join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
  const order = ['oci-layout', 'index.json', 'manifest.json', 'blobs']
  const flags = ['--format=gnu', '--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX']
  execFileSync('tar', ['--create', ...flags, `--file=${output}`, `--directory=${folder}`, ...order])
}
