import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { defineConfig } from 'vitepress'
import { address, docs, isOldAddress, sidebar, target, writeForModels } from '../index.mjs'

const require = createRequire(import.meta.url)
const version = process.env.DOCS_VERSION || execFileSync('git', ['describe', '--tags', '--always', '--dirty'], { encoding: 'utf8' }).trim()

// page is the path below docs/ of the file that is rendered.
const page = (env) => path.relative(docs, env.path).replaceAll(path.sep, '/')

function links(md) {
  md.core.ruler.push('links-of-the-repository', ({ tokens, env }) => {
    for (const token of tokens.flatMap((t) => t.children ?? [])) {
      if (token.type === 'link_open') token.attrSet('href', target(page(env), decodeURI(token.attrGet('href'))))
    }
  })
}

// A diagram stays text in the page, and becomes a picture in the browser (theme/diagrams.js).
function diagrams(md) {
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, i, ...rest) => tokens[i].info.trim() === 'mermaid'
    ? `<pre class="diagram" v-pre>${md.utils.escapeHtml(tokens[i].content)}</pre>`
    : fence(tokens, i, ...rest)
}

// A comment, such as the one that names the test of a block, is for the source. With html: false it would be text of the page.
function comments(md) {
  md.block.ruler.before('fence', 'comment', (state, start, end, silent) => {
    const line = state.src.slice(state.bMarks[start] + state.tShift[start], state.eMarks[start])
    if (!/^<!--.*-->\s*$/.test(line)) return false
    if (!silent) state.line = start + 1
    return true
  }, { alt: ['paragraph', 'reference', 'blockquote', 'list'] })
}

// Vue takes two braces for an expression, also where the page has them in a span of code.
function braces(md) {
  for (const name of ['code_inline', 'text']) {
    const rule = md.renderer.rules[name]
    md.renderer.rules[name] = (...args) => rule(...args).replaceAll('{{', '&#123;&#123;')
  }
}

export default defineConfig({
  title: 'ccmadm',
  description: 'kubeadm for external clouds',
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  base: process.env.DOCS_BASE || '/',
  srcDir: '../docs',
  outDir: './dist',
  rewrites: address,
  metaChunk: true,
  markdown: { html: false, config: (md) => { links(md); diagrams(md); comments(md); braces(md) } },
  // The pages are not below node_modules, so that what they import is looked for here.
  vite: {
    resolve: {
      alias: [
        { find: /^vue$/, replacement: require.resolve('vue/dist/vue.runtime.esm-bundler.js') },
        { find: /^vue\/server-renderer$/, replacement: require.resolve('vue/server-renderer').replace(/index\.js$/, 'index.mjs') },
      ],
    },
    build: { chunkSizeWarningLimit: 4096, reportCompressedSize: false },
  },
  transformHead: ({ pageData: { filePath } }) =>
    filePath && isOldAddress(filePath) ? [['meta', { name: 'robots', content: 'noindex' }]] : [],
  themeConfig: {
    nav: [
      { text: 'Contents', link: '/' },
      { text: 'Troubleshooting', link: '/troubleshooting' },
      { text: version, link: 'https://github.com/ccmadm/ccmadm/blob/main/CHANGELOG.md' },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: 'https://github.com/ccmadm/ccmadm' }],
    search: {
      provider: 'local',
      options: {
        _render: (text, env, md) => isOldAddress(page(env)) ? '' : md.render(text, env),
        miniSearch: { searchOptions: { fuzzy: 0.1, prefix: true, boost: { title: 4, text: 2, titles: 1 } } },
      },
    },
  },
  buildEnd({ outDir }) {
    writeForModels(outDir)
    fs.mkdirSync(path.join(outDir, 'assets'), { recursive: true })
    fs.copyFileSync(require.resolve('mermaid/dist/mermaid.min.js'), path.join(outDir, 'assets', 'mermaid.min.js'))
  },
})
